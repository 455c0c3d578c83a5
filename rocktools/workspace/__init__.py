"""Opens run directories and bare files, and builds each frame once, on demand."""
