"""The error tree. Every message is Korean, names the offending value and says what to do."""


class RagError(Exception):
    """Root of all errors that a person may see; ``str(error)`` is a complete Korean message."""


class SettingsError(RagError):
    """A setting or command-line value cannot be used."""


class ProfileError(RagError):
    """The profile file cannot be read or breaks a rule of the profile schema."""


class IndexMismatch(RagError):
    """An index was built by another embedder, tokenizer, lexicon, chunker or schema than the running one."""


class ChannelUnavailable(RagError):
    """A retrieval channel cannot answer; the question goes on without it."""


class ScopeViolation(RagError):
    """A document outside the visible scopes was about to be used."""


class GenerationError(RagError):
    """The language model could not produce an answer; the extractive answerer takes over."""


class StoreError(RagError):
    """A scope folder cannot be opened, locked or written."""


class IngestError(RagError):
    """A file could not be taken in; the rest of the batch goes on."""
