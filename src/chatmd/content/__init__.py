"""What documents, images and agents inside messages stand for."""
