"""``optimal``: only the dependencies that a target needs (Kshemkalyani and Singhal)."""
