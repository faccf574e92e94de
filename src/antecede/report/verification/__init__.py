"""The page of ``antecede verify --report``: where and when order was violated."""
