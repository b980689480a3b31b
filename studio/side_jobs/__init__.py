"""Work that a process of the trainer does beside the studio while a user watches."""
