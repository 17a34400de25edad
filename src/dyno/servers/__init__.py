"""Real servers, started, stopped and killed for one trial. What they serve is unknown here."""
