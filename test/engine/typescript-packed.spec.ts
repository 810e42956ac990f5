import { expect } from 'chai';
import { TypeScriptEngine } from '../../src/engine/typescript/engine.js';
import { LinearMemory } from '../../src/memory.js';
import { DATA, type Part, RIG_BYTES, type RigOptions, RingRig, randomness } from '../support/ring-rig.js';

function setUp(options: Partial<RigOptions> & { shared?: boolean } = {}): RingRig {
  const memory = new LinearMemory(
    options.shared ? new SharedArrayBuffer(RIG_BYTES) : new ArrayBuffer(RIG_BYTES),
  );
  return new RingRig(new TypeScriptEngine(memory), memory, { ring: 'packed', size: 8, ...options });
}

/** Random buffers through both sides: every one comes back once, with what the device said. */
function roundTrips(
  t: RingRig,
  seed: number,
  steps: number,
  options: { inOrder: boolean; indirect: boolean },
): void {
  const random = randomness(seed);
  const { size } = t;
  const posted = new Map<number, Part[]>(); // by token
  const waiting: number[] = []; // tokens, not yet popped
  let popped: { id: number; token: number; room: number }[] = [];
  const expected = new Map<number, number>(); // token → length
  let order: number[] = []; // tokens in the order in which they must come back
  let token = 1;
  let reloaded = 0;
  for (let step = 0; step < steps; step++) {
    switch (random(7)) {
      case 0:
      case 1: {
        const n = 1 + random(4);
        const buffers = Array.from({ length: n }, () => {
          const count = 1 + random(Math.min(size, 4));
          const out = random(count + 1);
          return Array.from(
            { length: count },
            (_, k): Part => [DATA + random(4096), 1 + random(500), k >= out],
          );
        });
        const added = t.add(buffers, token);
        expect(added).to.be.at.least(0);
        for (let i = 0; i < added; i++) {
          posted.set(token + i, buffers[i]);
          waiting.push(token + i);
        }
        token += n;
        t.driver.kickPrepare();
        break;
      }
      case 2: {
        const got = t.pop(1 + random(5), 64);
        if (!Array.isArray(got)) throw new Error(`popped ${got}`);
        for (const element of got) {
          const of = waiting.shift();
          if (of === undefined) throw new Error('popped more than was added');
          const parts = posted.get(of) ?? [];
          expect(element.out).to.deep.equal(parts.filter(([, , w]) => !w).map(([a, l]) => [a, l]));
          expect(element.in).to.deep.equal(parts.filter(([, , w]) => w).map(([a, l]) => [a, l]));
          popped.push({ id: element.id, token: of, room: element.in.reduce((sum, [, l]) => sum + l, 0) });
          if (options.inOrder) order.push(of);
        }
        if (!options.inOrder) expect(t.device.inFlight).to.equal(popped.length);
        break;
      }
      case 3:
      case 4: {
        const n = random(popped.length + 1);
        const batch = Array.from({ length: n }, () => popped.splice(random(popped.length), 1)[0]);
        const entries = batch.map(({ id, room }): [number, number] => [
          id,
          random(3) === 0 ? random(room + 1) : room,
        ]);
        if (!options.inOrder && random(2) === 0) {
          entries.forEach(([id, written], i) => {
            expect(t.device.fill(id, written, i)).to.equal(0);
          });
          expect(t.device.flush(n)).to.equal(0);
        } else {
          expect(t.push(entries)).to.equal(n);
        }
        for (const [i, [, written]] of entries.entries()) expected.set(batch[i].token, written);
        if (!options.inOrder) order.push(...batch.map((element) => element.token));
        t.device.shouldInterrupt();
        break;
      }
      case 5: {
        const got = t.get(1 + random(6));
        if (!Array.isArray(got)) throw new Error(`got ${got}`);
        for (const [of, length] of got) {
          expect(of).to.equal(order.shift());
          expect(length).to.equal(expected.get(of));
          expected.delete(of);
          posted.delete(of);
        }
        break;
      }
      case 6: {
        const saved = { driver: t.driver.save(), device: t.device.save() };
        expect(saved.driver.buffers.length).to.equal(t.driver.inFlight);
        expect(saved.device.elements.length + saved.device.fills.length).to.equal(t.device.inFlight);
        if (random(2) === 0) {
          const before = t.copy();
          t.driver = t.newDriver();
          t.device = t.newDevice();
          t.restore(before);
          t.driver.load(structuredClone(saved.driver));
          t.device.load(structuredClone(saved.device));
          reloaded++;
        }
        expect({ driver: t.driver.save(), device: t.device.save() }).to.deep.equal(saved);
        break;
      }
    }
    expect(t.driver.inFlight).to.equal(posted.size);
  }
  expect(token).to.be.above(10);
  expect(reloaded).to.be.above(0);
  // Everything comes home.
  for (let i = 0; i < 4 * size + 8; i++) {
    const got = t.pop(8, 64);
    if (Array.isArray(got)) for (const { id } of got) popped.push({ id, token: 0, room: 0 });
    popped = popped.filter(({ id }) => t.push([[id, 0]]) !== 1);
    t.get(64);
  }
  order = [];
  expect(t.driver.inFlight).to.equal(0);
  expect(t.driver.numFree).to.equal(size);
  expect(t.driver.tableBytes).to.equal(0);
  expect(t.device.inFlight).to.equal(0);
}

describe('packed ring in TypeScript', () => {
  for (const size of [1, 2, 3, 5, 6, 7, 256])
    for (const inOrder of [false, true])
      for (const eventIdx of [false, true])
        for (const indirect of [false, true])
          for (const shared of [false, true])
            it(`round trips: size ${size}${inOrder ? ', in order' : ''}${eventIdx ? ', event index' : ''}${indirect ? ', indirect' : ''}${shared ? ', shared' : ''}`, () => {
              for (let seed = 1; seed <= 3; seed++)
                roundTrips(
                  setUp({ size, inOrder, eventIdx, indirect, shared, tables: 16 * 9 }),
                  seed * 7919,
                  600,
                  { inOrder, indirect },
                );
            });
});
