"""Hiding where files and databases of this machine are: answers show a file's name, never its folder."""

import re
from collections.abc import Mapping
from typing import overload

_PART = r"[^\s'\"`,;:<>()\[\]{}|/\\]+"
_ABSOLUTE = rf"(?:~[\w.-]*|\.{{1,2}})?/(?!/)(?:{_PART}/+)+"  # /home/x/, ~/x/, ../x/
_HERE = r"(?:~[\w.-]*|\.{1,2})/+"  # ./x, ~/x
_WINDOWS = rf"[A-Za-z]:\\(?:{_PART}\\+)*"
_FILES = r"(?:csv|tsv|jsonl?|ya?ml|parquet|sqlite3?|db|py|txt|toml|gguf|safetensors|zst|gz|zip)"
_RELATIVE = rf"(?:(?![^/\s]*=){_PART}/+)+(?=[^\s'\"`,;:<>()/\\]+\.{_FILES}\b)"  # data/x/ before questions.csv
_SCHEME = r"(?:(?<=sqlite:)|(?<=file:))/{2,4}(?:" + _PART + r"/+)*"
_FOLDERS = re.compile(
    rf"{_SCHEME}|(?<![\w/.~:\\@%+-])(?:{_ABSOLUTE}|{_HERE}|{_WINDOWS}|{_RELATIVE})|(?<=\w:)(?:{_ABSOLUTE})"
)
_QUOTED = re.compile(
    r"(?P<quote>['\"])(?:\w+=)?(?:~[\w.-]*|\.{1,2})?/[^'\"\n,]*?[^'\"\n,/\\](?P=quote)"
)  # may hold spaces
_STORE = re.compile(r"\b(?:postgresql|postgres|mysql)(?:\+\w+)?://[^\s'\"`,;<>]*")
_PASSWORD = re.compile(r"(?<=://)[^\s/@'\"]+@")


@overload
def without_folders(value: str) -> str: ...


@overload
def without_folders(value: object) -> object: ...


def without_folders(value: object) -> object:
    """Return text, or JSON, with every path of a file shortened to its last part and user names out of URLs.

    Addresses of databases are left out whole: their hosts are inside the operator's network.

    A path is what starts with a slash, a drive, `~`, `.` or `..` and has a folder, and a relative one that ends as
    files of data, configuration, models and stores do. Names such as `org/model` and URLs stay.
    """
    if isinstance(value, str):
        whole = re.fullmatch(r"(?:~[\w.-]*|\.{1,2})?/[^\n,;'\"<>]+/([^\n,;'\"<>/]+)/?", value)
        if whole is not None and (" " not in value or (" /" not in value and re.search(rf"\.{_FILES}$", whole[1]))):
            return whole[1]  # a value that is the path of a file may hold spaces
        text = _QUOTED.sub(_last_of_quoted, _STORE.sub("the database", value))
        return _FOLDERS.sub("", _PASSWORD.sub("", text))
    if isinstance(value, Mapping):
        return {without_folders(str(key)): without_folders(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(part) for part in value]
    return value


def _last_of_quoted(match: re.Match[str]) -> str:
    text, quote = match[0][1:-1], match["quote"]
    if " /" in text or text.count("/") < 2:
        return match[0]
    name, is_named, path = text.partition("=") if re.match(r"\w+=", text) else ("", "", text)
    return f"{quote}{name}{is_named}{path.rpartition('/')[2]}{quote}"
