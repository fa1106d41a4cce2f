# SPDX-License-Identifier: MIT
"""A server that reads lines of text and answers each with a line that a GPU worker computes.

    python asyncio_server.py --port 8765 &
    printf 'hello\nslow\n' | nc -N 127.0.0.1 8765

Every connection is a coroutine that awaits the pool. A request that takes longer than its time limit is
interrupted; its worker keeps the model. If a client disconnects, its running request is still finished.
"""
from __future__ import annotations

import argparse
import asyncio
import time

from gpu_dispatch import BaseWorker, Pool


class Shouter(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        self.gpu_id = gpu_id          # load the model here

    def process(self, data: str) -> str:
        if data == "slow":
            time.sleep(60)
        return f"{data.upper()} (GPU {self.gpu_id})"


async def answer(pool: Pool[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        try:
            text = await pool.asubmit(line.decode().strip(), timeout=2)
        except TimeoutError:
            text = "sorry, that took too long"
        writer.write(f"{text}\n".encode())
        await writer.drain()
    writer.close()


async def serve(gpus: str, port: int) -> None:
    with Pool(Shouter, gpus=gpus) as pool:
        server = await asyncio.start_server(lambda r, w: answer(pool, r, w), "127.0.0.1", port)
        print(f"listening on port {server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer lines of text with one worker per GPU.")
    parser.add_argument("--gpus", default="sim:2", help="auto, 0,1,2 or sim:2")
    parser.add_argument("--port", type=int, default=8765, help="port to listen on; 0: any free port")
    options = parser.parse_args()
    try:
        asyncio.run(serve(options.gpus, options.port))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
