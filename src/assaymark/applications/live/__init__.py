"""What happens after an application went live: rules that score its traces, feedback, queues of annotations."""
