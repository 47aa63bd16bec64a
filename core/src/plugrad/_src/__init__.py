"""What is private: any of it may change in any version."""
