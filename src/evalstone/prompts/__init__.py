"""How a row becomes text: templates compiled once, shots drawn by published rules, turns put together, chats."""
