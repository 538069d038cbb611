"""rankwise leaderboard."""
