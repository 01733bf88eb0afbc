"""What makes an altered record show: receipts, seals, digests and the keys behind them; also checked from elsewhere."""
