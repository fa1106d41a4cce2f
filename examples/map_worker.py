#!/usr/bin/env python3
"""Counts words, many texts at a time:

gpuq map --lines --input texts.txt --output counts.jsonl --batch 32 --worker-command 'python3 map_worker.py'
"""
import json
import sys


def count(texts):
    return [len(text.split()) for text in texts]


for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "setup":  # load the model here: message["device"], message["settings"]
        answer = {"type": "ready"}
    else:
        answer = {"id": message["id"], "ok": True}
        try:
            answer["results"] = count(message["items"])
        except Exception as error:
            answer.update(ok=False, error=f"{type(error).__name__}: {error}")
    print(json.dumps(answer), flush=True)
