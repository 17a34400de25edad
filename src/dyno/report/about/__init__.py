"""Texts about Dyno or about a machine: listings, a plan, `dyno doctor`, proofs of tiers, requests."""
