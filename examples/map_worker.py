#!/usr/bin/env python3
"""Counts words, many texts at a time:

gpuq map --lines --input texts.txt --output counts.jsonl --batch 32 --worker-command 'python3 map_worker.py'
"""
import json
import sys


def count(texts):
    return [len(text.split()) for text in texts]


for line in sys.stdin:
    message = json.loads(line, parse_int=lambda digits: int(digits[:20]))
    if message["type"] == "setup":  # load the model here: message["device"], message["settings"]
        answer = {"type": "ready"}
    else:
        answer = {"id": message["id"], "ok": True}
        try:  # Python refuses integers of more than 4,300 digits; here, only that item fails
            answer["results"] = count(json.loads(line)["items"])
        except Exception as error:
            answer.update(ok=False, error=f"{type(error).__name__}: {error}")
    print(json.dumps(answer), flush=True)
