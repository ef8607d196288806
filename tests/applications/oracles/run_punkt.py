"""NLTK's Punkt with the parameters that NLTK distributes: reads a JSON list of texts, writes the sentences of each."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

[package] = find_spec("llama_index.core").submodule_search_locations  # type: ignore[union-attr, misc]
os.environ["NLTK_DATA"] = str(Path(package, "_static", "nltk_cache"))

from nltk.tokenize import PunktTokenizer  # noqa: E402 - which looks for its data when it is imported

punkt = PunktTokenizer("english")
sys.stdout.write(json.dumps([punkt.tokenize(text) for text in json.load(sys.stdin)]) + "\n")
