"""Tables and figures of Kwiken: reissues, partial answers and catch-up."""
