"""Whether everything that Runs need is there, and how to mend what is not."""
