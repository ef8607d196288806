"""How `assaymark study serve` puts together a study and its pages."""

import time
from pathlib import Path

from assaymark.cli.output import echo
from assaymark.cli.serve import need_extra

__all__ = ["serve_study"]


def serve_study(file: str, where: tuple[str, int, tuple[str, ...], tuple[str, ...]], store: str | None) -> None:
    """Serve a study until a signal stops the process; `where`: address, port, other host names, proxies.

    Raises: as `read_study`, `store_study`, `hosts_for` and `listen`; MissingExtra without the extra `web`.
    """
    need_extra("assaymark study serve")
    from assaymark.arena.studies.sessions import Session, invitations, store_study
    from assaymark.arena.studies.study_file import read_study
    from assaymark.leaderboard.site import Site
    from assaymark.store import Store
    from assaymark.web.app import create_app
    from assaymark.web.routes.studies import studies_part
    from assaymark.web.secret import server_secret
    from assaymark.web.serve import hosts_for, listen, serve

    host, port, allow_host, proxies = where
    hosts = hosts_for(host, allow_host)
    read, secret = read_study(Path(file)), server_secret()
    with Store.open(store) as opened:
        design, _ = store_study(opened, read, secret, time.time())
        for note in design.notes:
            echo(note, err=True)
        app = create_app(Site([]), hosts, [studies_part(Session(opened))], proxies)

        def ready(url: str) -> None:
            for name, path in invitations(opened, read.study, secret).items():
                echo(f"{name}: {url.rstrip('/')}{path}")
            echo("Send each rater the address beside the name.  (stop with Ctrl-C)")

        with listen(host, port) as listening:
            serve(app, listening, ready)
