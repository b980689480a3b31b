"""The store: tables, migrations and sessions. Services are its only users; no table row leaves them."""
