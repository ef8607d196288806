"""The web application: leaderboards as pages that work without JavaScript, each with a `.json` twin.

`app` has the routes and nothing else, `pages/` makes what a page shows, `render` turns it into HTML or JSON,
`security` stands before all of it.
"""
