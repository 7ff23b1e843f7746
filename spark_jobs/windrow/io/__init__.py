"""Everything that touches a session, a broker, a table or a lock."""
