// An emulator's console device. The guest's RAM is a range of a WebAssembly memory, the rings lie where the guest's
// driver has put them, and vring serves them in place: node examples/emulator.mjs

import { Feature, loadEngine, VringError } from 'vring';

const PAGE = 65536;
const RAM = { guest: 0x8000_0000n, local: PAGE, length: 16 * PAGE };
const memory = new WebAssembly.Memory({ initial: 32 });
// A view of its own each time: a memory that grows detaches those that were there.
const guest = () => new DataView(memory.buffer, RAM.local, RAM.length);
const at = (address) => Number(address - RAM.guest);

// The engine adds its own pages behind those that are there.
const engine = await loadEngine({ memory });
const queue = engine.deviceQueue({
  ring: 'split',
  size: 8,
  features: [Feature.VERSION_1], // as the driver has accepted them
  areas: { descriptor: 0x8000_1000n, driver: 0x8000_1100n, device: 0x8000_1200n }, // from the queue's registers
  regions: [RAM], // all that the device may touch
  interrupt: () => console.log('interrupt'),
});

/** What the driver in the guest would do: write `text` to its memory and put it into the ring. */
function guestWrites(text, index, address = 0x8000_2000n) {
  new Uint8Array(memory.buffer, RAM.local + at(0x8000_2000n)).set(new TextEncoder().encode(text));
  const descriptor = at(0x8000_1000n) + 16 * index;
  guest().setBigUint64(descriptor, address, true);
  guest().setUint32(descriptor + 8, text.length, true);
  guest().setUint32(descriptor + 12, 0, true); // flags and next
  guest().setUint16(at(0x8000_1100n) + 4 + 2 * index, index, true);
  guest().setUint16(at(0x8000_1100n) + 2, index + 1, true);
}

/** The device: called when the guest writes to the queue's notification register. */
function notified() {
  for (let element = queue.pop(); element; element = queue.pop()) {
    for (const { address, length } of element.out) {
      console.log(new TextDecoder().decode(new Uint8Array(memory.buffer, address, length)));
    }
    queue.push(element, 0);
  }
}

guestWrites('hello from the guest', 0);
notified();

// A guest can be wrong, or hostile: this buffer lies outside of its RAM.
guestWrites('gone', 1, 0x7fff_f000n);
try {
  notified();
} catch (error) {
  if (!(error instanceof VringError)) throw error;
  console.log(error.message);
}
console.log(`broken: ${queue.broken}`);
