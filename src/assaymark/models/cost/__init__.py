"""The cost of requests to a paid model: a dated table of prices, a forecast, and a limit that is never exceeded."""
