// A peer that changes its mind: flips words of a shared memory between two values as fast as it can.
// Plain JavaScript, so that a worker can run it as it is.
import { workerData } from 'node:worker_threads';

const { memory, flips, control } = workerData;
const words = new Int32Array(memory.buffer);
const [stop, rounds] = [control >> 2, (control >> 2) + 1];
const list = flips.map(({ address, values }) => ({ index: address >> 2, values }));
while (Atomics.load(words, stop) === 0) {
  for (let i = 0; i < 256; i++)
    for (const { index, values } of list)
      Atomics.store(words, index, values[(i >> 1) & 1 ? 1 - (i & 1) : i & 1]);
  Atomics.add(words, rounds, 1);
}
