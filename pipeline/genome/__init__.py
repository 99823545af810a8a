"""What stages and formats of genomics share: builds, chromosomes, people."""
