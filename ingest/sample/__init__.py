"""Demo corpus: public crop knowledge, registrations and law, and two synthetic farms."""
