"""Texts about a run or about Dyno: the machine, the plan, the listing, results of crashes."""
