"""A small server that answers the Hub's API for data sets in a folder, so that the Hub's own libraries read them.

Run as `python -m tests.datasets.hub_server FOLDER`: FOLDER has `org/name/...` with the files of each repository. It
prints its address, then one line for each request.
"""

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """Answers for the repositories of one folder."""

    root = Path()
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print the request."""
        sys.stdout.write(f"{self.command} {self.path}\n")
        sys.stdout.flush()

    def do_HEAD(self) -> None:
        """Answer as to GET, without a body."""
        self.do_GET()

    def do_POST(self) -> None:
        """Answer questions about several paths."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = self._parts()
        if parts[:2] == ["api", "datasets"] and parts[4:5] == ["paths-info"]:
            wanted = self._wanted(body)
            self._json([entry for entry in self._entries("/".join(parts[2:4])) if entry["path"] in wanted])
        else:
            self._missing()

    def _wanted(self, body: bytes) -> set[str]:
        if (self.headers.get("Content-Type") or "").startswith("application/json"):
            return set(json.loads(body)["paths"])
        return {unquote(pair.partition("=")[2]) for pair in body.decode().split("&") if pair.startswith("paths=")}

    def do_GET(self) -> None:
        """Answer what the libraries ask: a repository, its tree, a file."""
        parts = self._parts()
        if parts[:2] == ["api", "datasets"] and len(parts) >= 4 and (self.root / parts[2] / parts[3]).is_dir():
            repository = "/".join(parts[2:4])
            if parts[4:5] in ([], ["revision"]):
                files = [{"rfilename": entry["path"]} for entry in self._entries(repository)]
                self._json({"id": repository, "sha": COMMIT, "private": False, "gated": False, "disabled": False,
                            "downloads": 0, "likes": 0, "tags": [], "siblings": files})  # fmt: skip
                return
            if parts[4] == "tree":
                folder = self.root.joinpath(repository, *parts[6:])
                whole = "recursive=true" in urlsplit(self.path).query.lower()
                if folder.is_dir():
                    self._json(
                        [self._entry(repository, path) for path in sorted(folder.glob("**/*" if whole else "*"))]
                    )
                    return
        if parts[:1] == ["datasets"] and parts[3:4] == ["resolve"]:
            file = self.root.joinpath(*parts[1:3], *parts[5:])
            if file.is_file():
                self._send(file.read_bytes(), "application/octet-stream")
                return
        self._missing()

    def _parts(self) -> list[str]:
        return [unquote(part) for part in urlsplit(self.path).path.split("/") if part]

    def _entries(self, repository: str) -> list[dict[str, object]]:
        folder = self.root / repository
        return [self._entry(repository, path) for path in sorted(folder.rglob("*")) if path.is_file()]

    def _entry(self, repository: str, path: Path) -> dict[str, object]:
        place = path.relative_to(self.root / repository).as_posix()
        content = path.read_bytes() if path.is_file() else place.encode()
        oid = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        kind = "file" if path.is_file() else "directory"
        return {"type": kind, "oid": oid, "size": path.stat().st_size if path.is_file() else 0, "path": place}

    def _missing(self) -> None:
        self._send(b'{"error":"not found"}', "application/json", 404, {"X-Error-Code": "EntryNotFound"})

    def _json(self, content: object) -> None:
        self._send(json.dumps(content).encode(), "application/json")

    def _send(self, body: bytes, kind: str, status: int = 200, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        etag = hashlib.sha1(body, usedforsecurity=False).hexdigest()
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'}
        for name, value in {**headers, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


if __name__ == "__main__":
    Hub.root = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
