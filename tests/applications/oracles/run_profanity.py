"""alt-profanity-check's own code: reads a JSON list of texts, writes its verdicts and probabilities of profanity."""

import json
import sys

from profanity_check import predict, predict_prob

texts = json.load(sys.stdin)
verdicts = {"predict": predict(texts).tolist(), "predict_prob": predict_prob(texts).tolist()}
sys.stdout.write(json.dumps(verdicts) + "\n")
