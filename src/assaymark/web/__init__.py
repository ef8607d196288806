"""The web application: leaderboards as pages that work without JavaScript, each with a `.json` twin.

`app` puts the features' routes together, their `pages` make the contents of a page, `render` turns these into HTML or
JSON, and `security` checks every request.
"""
