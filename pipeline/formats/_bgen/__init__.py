"""What the bgen format is made of: files cut to some variants, people of a .sample, and variants written."""
