"""What connect and listen do before a transport exists."""
