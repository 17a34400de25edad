"""What several engines share: an opener, a client, a port's class. No engine is declared here."""
