"""Tables of published experiments next to a run of them."""
