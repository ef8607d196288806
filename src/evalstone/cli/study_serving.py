"""How `evalstone study serve` puts together a study and its pages."""

import time
from pathlib import Path

from evalstone.cli.output import echo
from evalstone.cli.serve import need_extra

__all__ = ["serve_study"]


def serve_study(file: str, where: tuple[str, int, tuple[str, ...], tuple[str, ...]], store: str | None) -> None:
    """Serve a study until a signal stops the process; `where`: address, port, other host names, proxies.

    Raises: as `read_study`, `store_study`, `hosts_for` and `listen`; MissingExtra without the extra `web`.
    """
    need_extra("evalstone study serve")
    from evalstone.arena.studies.sessions import Session, invitations, store_study
    from evalstone.arena.studies.study_file import read_study
    from evalstone.leaderboard.site import Site
    from evalstone.store import Store
    from evalstone.web.app import create_app
    from evalstone.web.routes.studies import studies_part
    from evalstone.web.secret import server_secret
    from evalstone.web.serve import hosts_for, listen, serve

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
