"""What templates and regular expressions from files may take: time, output and memory."""
