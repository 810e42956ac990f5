// Two threads, one shared memory: the main thread is the driver, a Worker the device. Buffers are passed in place,
// and each side sleeps until the other notifies it. Runs in Node, Deno and Bun: node examples/workers.mjs

import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { Feature, loadEngine } from 'vring';

const FEATURES = [Feature.VERSION_1, Feature.EVENT_IDX, Feature.RING_PACKED];
const COUNT = 10_000;
const BYTES = 64;
const PAGE = 65536;

/** A doorbell: a word that counts, and whoever waits for it to change. */
const ring = (bell, at) => {
  Atomics.add(bell, at, 1);
  Atomics.notify(bell, at);
};

if (isMainThread) await driver();
else await device();

async function driver() {
  // Each thread loads an engine of its own, on a range of the memory of its own.
  const memory = new WebAssembly.Memory({ initial: 64, maximum: 64, shared: true });
  const bell = new Int32Array(new SharedArrayBuffer(8));
  const engine = await loadEngine({ memory, base: 0, size: 32 * PAGE });
  const queue = engine.driverQueue({
    ring: 'packed',
    size: 256,
    features: FEATURES,
    notify: () => ring(bell, 0),
  });
  const worker = new Worker(new URL(import.meta.url), { workerData: { memory, bell, areas: queue.areas } });
  const done = new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));

  const words = new Uint32Array(memory.buffer);
  const free = Array.from({ length: 128 }, () => engine.alloc(2 * BYTES, 8));
  const inUse = new Map();
  let sent = 0;
  let sum = 0;
  for (let received = 0; received < COUNT; ) {
    const heard = Atomics.load(bell, 1);
    while (sent < COUNT && free.length > 0) {
      const address = free.pop();
      words[address >>> 2] = sent;
      queue.add([{ address, length: BYTES }], [{ address: address + BYTES, length: BYTES }], sent);
      inUse.set(sent++, address);
    }
    queue.kick();
    for (let used = queue.getBuf(); used; used = queue.getBuf()) {
      const address = inUse.get(used.token);
      inUse.delete(used.token);
      sum += words[(address + BYTES) >>> 2];
      free.push(address);
      received++;
    }
    // False if more has come meanwhile: then nobody will notify.
    if (received < COUNT && inUse.size > 0 && queue.enableCallbacks()) Atomics.wait(bell, 1, heard);
  }
  console.log(await done);
  console.log(`sum of the squares below ${COUNT}: ${sum}`);
}

async function device() {
  const { memory, bell, areas } = workerData;
  const engine = await loadEngine({ memory, base: 32 * PAGE, size: 32 * PAGE });
  const queue = engine.deviceQueue({
    ring: 'packed',
    size: 256,
    features: FEATURES,
    areas,
    regions: [{ guest: 0, length: 32 * PAGE, local: 0 }], // the driver's range, and nothing else
    interrupt: () => ring(bell, 1),
  });
  const words = new Uint32Array(memory.buffer);
  for (let served = 0; served < COUNT; ) {
    const heard = Atomics.load(bell, 0);
    for (let element = queue.pop(); element; element = queue.pop()) {
      const value = words[element.out[0].address >>> 2];
      words[element.in[0].address >>> 2] = value * value;
      queue.push(element, 4);
      served++;
    }
    if (served < COUNT && queue.enableNotifications()) Atomics.wait(bell, 0, heard);
  }
  parentPort.postMessage(`${queue.stats().completed} buffers served`);
}
