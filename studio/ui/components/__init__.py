"""Parts that pages are made of. They know NiceGUI and the data they show, never the store."""
