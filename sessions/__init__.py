"""What a Session is: conversations of many Runs, of which at most one goes on at a time."""
