"""How a submission meets a grader: in grading, and before a grader that lacks one defence."""
