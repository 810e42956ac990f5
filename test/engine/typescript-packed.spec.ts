import { expect } from 'chai';
import * as L from '../../assembly/abi/layout.js';
import { TypeScriptEngine } from '../../src/engine/typescript/engine.js';
import { LinearMemory } from '../../src/memory.js';
import {
  DATA,
  DESC,
  DEVICE,
  DRIVER,
  type Part,
  RIG_BYTES,
  type RigOptions,
  RingRig,
  randomness,
} from '../support/ring-rig.js';

// Used again and again: they are large.
const plain = new LinearMemory(new ArrayBuffer(RIG_BYTES));
const shared = new LinearMemory(new SharedArrayBuffer(RIG_BYTES));

function setUp(options: Partial<RigOptions> & { shared?: boolean } = {}): RingRig {
  const memory = options.shared ? shared : plain;
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
      it(`round trips, size ${size}${inOrder ? ', in order' : ''}`, () => {
        for (let bits = 0; bits < 8; bits++) {
          const [eventIdx, indirect, shared] = [1, 2, 4].map((bit) => (bits & bit) !== 0);
          const t = setUp({ size, inOrder, eventIdx, indirect, shared, tables: 16 * 9 });
          roundTrips(t, size * 7919 + bits, 300, { inOrder, indirect });
        }
      });

  /** One writable buffer of `length` bytes at DATA, popped: returns its id. */
  const pass = (t: RingRig, token: number, length = 100): number => {
    expect(t.add([[[DATA, length, true]]], token)).to.equal(1);
    const got = t.pop(1);
    if (!Array.isArray(got) || got.length !== 1) throw new Error(`popped ${got}`);
    return got[0].id;
  };
  /** addr, len, id, flags of a slot. */
  const slot = (t: RingRig, index: number) => {
    const d = DESC + 16 * index;
    const { view } = t;
    const addr = view.getBigUint64(d, true);
    return [
      Number(addr),
      view.getUint32(d + 8, true),
      view.getUint16(d + 12, true),
      view.getUint16(d + 14, true),
    ];
  };
  const event = (t: RingRig, structure: number) => [
    t.view.getUint16(structure, true),
    t.view.getUint16(structure + 2, true),
  ];

  it('wraps: four entries, next index 1 under counter 0, a chain of four', () => {
    const t = setUp({ size: 4 });
    for (let i = 0; i < 5; i++) {
      t.push([[pass(t, i), 100]]);
      expect(t.get()).to.deep.equal([[i, 100]]);
    }
    expect(t.driver.position).to.equal(1);
    const parts = [0, 1, 2, 3].map((k): Part => [DATA + k, 10 + k, k > 1]);
    expect(t.add([parts], 9)).to.equal(1);
    expect(t.driver.position).to.equal(0x8001);
    expect([1, 2, 3, 0].map((at) => slot(t, at))).to.deep.equal([
      [DATA, 10, 0, 0x8001],
      [DATA + 1, 11, 0, 0x8001],
      [DATA + 2, 12, 0, 0x8003],
      [DATA + 3, 13, 0, 0x0082],
    ]);
    expect(t.pop()).to.deep.equal([
      {
        id: 0,
        out: [
          [DATA, 10],
          [DATA + 1, 11],
        ],
        in: [
          [DATA + 2, 12],
          [DATA + 3, 13],
        ],
      },
    ]);
    expect(t.push([[0, 25]])).to.equal(1);
    expect(slot(t, 1)).to.deep.equal([DATA, 25, 0, 0x0002]);
    expect(t.get()).to.deep.equal([[9, 25]]);
  });

  it('goes direct where there is no table, and is full where that does not fit', () => {
    const t = setUp({ size: 4, indirect: true, tables: 32 });
    const three: Part[] = [
      [DATA, 1],
      [DATA, 2],
      [DATA, 3, true],
    ];
    expect(t.add([three.slice(1), three, [[DATA, 4]]], 1)).to.equal(2);
    expect(t.driver.numFree).to.equal(0);
    expect(slot(t, 0)).to.deep.equal([0x280000, 32, 0, 0x0084]);
    expect(slot(t, 3)).to.deep.equal([DATA, 3, 1, 0x0082]);
    const got = t.pop();
    expect(Array.isArray(got) && got.map(({ id }) => id)).to.deep.equal([0, 1]);
    t.push([
      [1, 3],
      [0, 0],
    ]);
    expect(t.get()).to.deep.equal([
      [2, 3],
      [1, 0],
    ]);
    expect([t.driver.numFree, t.driver.tableBytes]).to.deep.equal([4, 0]);
  });

  it('clamps a used length, and takes one without WRITE for 0', () => {
    const t = setUp();
    pass(t, 1);
    pass(t, 2);
    t.forge(DESC, 0, 0, 500, 1, 0x8082);
    t.forge(DESC, 1, 0, 500, 0, 0x8080);
    expect(t.get()).to.deep.equal([
      [2, 100],
      [1, 0],
    ]);
    expect(t.driver.counter(L.COUNT_CLAMPED)).to.equal(1);
    const strict = setUp({ strict: true });
    pass(strict, 1);
    strict.forge(DESC, 0, 0, 500, 0, 0x8082);
    expect(strict.get()).to.equal(L.RESULT_BROKEN);
    expect(strict.fault('driver')).to.deep.equal([L.FAULT_USED_LEN, 500n, 100n]);
  });

  for (const [id, fault] of [
    [8, [L.FAULT_USED_ID_RANGE, 8n, 8n]],
    [3, [L.FAULT_USED_ID, 3n, 50n]],
  ] as const)
    it(`breaks for used id ${id}, once it is first in line`, () => {
      const t = setUp();
      pass(t, 1);
      pass(t, 2);
      t.forge(DESC, 0, 0, 50, 0, 0x8082);
      t.forge(DESC, 1, 0, 50, id, 0x8082);
      expect(t.get()).to.deep.equal([[1, 50]]);
      expect(t.driver.fault).to.equal(0);
      expect(t.get()).to.equal(L.RESULT_BROKEN);
      expect(t.fault('driver')).to.deep.equal(fault);
    });

  const A = 0x80; // flags of an available slot in the first lap
  const bad: [
    name: string,
    forge: (t: RingRig) => void,
    fault: [number, bigint, bigint],
    options?: Partial<RigOptions>,
  ][] = [
    [
      'a chain that goes on to a slot that is not available',
      (t) => t.forge(DESC, 0, DATA, 8, 0, A | 1),
      [L.FAULT_DESC_UNAVAILABLE, 0n, 1n],
    ],
    [
      'a chain once around the ring',
      (t) => {
        for (let i = 0; i < 8; i++) t.forge(DESC, i, DATA, 8, 0, A | 1);
      },
      [L.FAULT_DESC_UNAVAILABLE, 0n, 0n],
    ],
    [
      'a table that was not negotiated',
      (t) => t.forge(DESC, 0, DATA, 16, 0, A | 4),
      [L.FAULT_INDIRECT_REFUSED, 0n, 0x84n],
    ],
    [
      'a table with NEXT',
      (t) => t.forge(DESC, 0, DATA, 16, 0, A | 5),
      [L.FAULT_INDIRECT_NEXT, 0n, 0x85n],
      { indirect: true },
    ],
    [
      'a table behind a direct descriptor',
      (t) => {
        t.forge(DESC, 0, DATA, 8, 0, A | 1);
        t.forge(DESC, 1, DATA, 16, 0, A | 4);
      },
      [L.FAULT_INDIRECT_NEXT, 1n, 0x84n],
      { indirect: true },
    ],
    [
      'a table of 24 bytes',
      (t) => t.forge(DESC, 0, DATA, 24, 0, A | 4),
      [L.FAULT_TABLE_LENGTH, 24n, BigInt(DATA)],
      { indirect: true },
    ],
    [
      'a table of 0 bytes',
      (t) => t.forge(DESC, 0, DATA, 0, 0, A | 4),
      [L.FAULT_TABLE_LENGTH, 0n, BigInt(DATA)],
      { indirect: true },
    ],
    [
      'a table across the end of the region',
      (t) => t.forge(DESC, 0, RIG_BYTES - 16, 32, 0, A | 4),
      [L.FAULT_TABLE_RANGE, BigInt(RIG_BYTES - 16), 32n],
      { indirect: true },
    ],
    [
      'a table of more descriptors than the queue',
      (t) => {
        t.forge(DESC, 0, DATA, 16 * 9, 0, A | 4);
        for (let i = 0; i < 9; i++) t.forge(DATA, i, DATA, 8, 0, 0);
      },
      [L.FAULT_CHAIN_LONG, 0n, 8n],
      { indirect: true },
    ],
    [
      'a readable segment behind a writable one',
      (t) => {
        t.forge(DESC, 0, DATA, 8, 0, A | 3);
        t.forge(DESC, 1, DATA, 9, 0, A);
      },
      [L.FAULT_SEGMENT_ORDER, BigInt(DATA), 9n],
    ],
    [
      'a segment outside the regions',
      (t) => t.forge(DESC, 0, 2n ** 63n, 8, 0, A),
      [L.FAULT_SEGMENT_RANGE, 2n ** 63n, 8n],
    ],
    ['an id of the queue size', (t) => t.forge(DESC, 0, DATA, 8, 8, A), [L.FAULT_HEAD_RANGE, 8n, 8n]],
  ];
  for (const [name, forge, fault, options] of bad)
    it(`breaks for ${name}, whatever the room`, () => {
      for (const capacity of [4096, 0]) {
        const t = setUp(options);
        forge(t);
        expect(t.pop(4, capacity)).to.equal(L.RESULT_BROKEN);
        expect(t.fault('device')).to.deep.equal(fault);
        t.device.reset();
        expect(t.device.availableBytes(1, 1)).to.equal(L.RESULT_BROKEN);
        expect(t.fault('device')).to.deep.equal(fault);
      }
    });

  it('breaks for an id in flight, and for slots that are taken', () => {
    const t = setUp({ size: 4 });
    for (let i = 0; i < 3; i++) pass(t, i);
    t.forge(DESC, 3, DATA, 8, 1, A);
    expect(t.pop()).to.equal(L.RESULT_BROKEN);
    expect(t.fault('device')).to.deep.equal([L.FAULT_HEAD_IN_FLIGHT, 1n, 3n]);
    const u = setUp({ size: 4 });
    for (let i = 0; i < 3; i++) pass(u, i);
    u.forge(DESC, 3, DATA, 8, 3, A | 1);
    u.forge(DESC, 0, DATA, 8, 3, 0x8000);
    expect(u.pop()).to.equal(L.RESULT_BROKEN);
    expect(u.fault('device')).to.deep.equal([L.FAULT_SLOTS, 3n, 3n]);
  });

  it('follows NEXT in no table', () => {
    const t = setUp({ indirect: true });
    t.forge(DESC, 0, DATA, 32, 5, A | 4 | 2);
    t.forge(DATA, 0, DATA + 64, 8, 77, 1 | 4);
    t.forge(DATA, 1, DATA + 72, 8, 0, 2);
    expect(t.pop()).to.deep.equal([{ id: 5, out: [[DATA + 64, 8]], in: [[DATA + 72, 8]] }]);
  });

  it('keeps what is filled in flight until it is published', () => {
    const t = setUp();
    const [a, b] = [pass(t, 1), pass(t, 2)];
    expect(t.device.fill(b, 60, 1)).to.equal(0);
    expect(t.device.flush(1)).to.equal(L.RESULT_SLOT);
    expect(t.push([[a, 0]])).to.equal(L.RESULT_SLOT);
    expect(t.device.fill(b, 60, 0)).to.equal(L.RESULT_NOT_IN_FLIGHT);
    expect([t.device.detach(b), t.device.writable(b), t.device.rewind(1)]).to.deep.equal([-4, -4, 0]);
    expect(t.device.fill(a, 50, 2)).to.equal(L.RESULT_SLOT);
    expect(t.device.fill(a, 50, 0)).to.equal(0);
    expect([t.device.inFlight, t.device.counter(L.COUNT_COMPLETED)]).to.deep.equal([2, 0]);
    expect(t.get()).to.deep.equal([]);
    expect(t.device.flush(2)).to.equal(0);
    expect([t.device.inFlight, t.device.counter(L.COUNT_BYTES_IN)]).to.deep.equal([0, 110]);
    expect(t.get()).to.deep.equal([
      [1, 50],
      [2, 60],
    ]);
  });

  it('puts back the last elements only, under the counter they had', () => {
    const t = setUp({ size: 3 });
    for (let i = 0; i < 2; i++) {
      t.push([[pass(t, i), 1]]);
      t.get();
    }
    t.add(
      [
        [
          [DATA, 1],
          [DATA, 2],
        ],
      ],
      7,
    );
    expect(t.pop()).to.have.length(1);
    expect(t.device.save().avail).to.equal(1);
    expect(t.device.lastPopped()).to.equal(0);
    expect(t.device.rewind(1)).to.equal(1);
    expect(t.device.save().avail).to.equal(0x8002);
    expect(t.pop()).to.deep.equal([
      {
        id: 0,
        out: [
          [DATA, 1],
          [DATA, 2],
        ],
        in: [],
      },
    ]);
  });

  it('uses one descriptor for a batch in order, and hands it out in parts', () => {
    const t = setUp({ size: 5, inOrder: true, eventIdx: true });
    const buffers: Part[][] = [
      [[DATA, 10, true]],
      [
        [DATA, 5],
        [DATA, 20, true],
      ],
      [[DATA, 30, true]],
      [[DATA, 40, true]],
    ];
    expect(t.add(buffers, 1)).to.equal(4);
    expect(t.pop()).to.have.length(4);
    expect(t.push([[2, 30]])).to.equal(1);
    expect(t.device.fill(1, 20, 99)).to.equal(0);
    expect(t.get()).to.deep.equal([]);
    expect(t.push([[0, 10]])).to.equal(1);
    // One used descriptor where the first one's would be, naming the last one.
    expect([slot(t, 0), slot(t, 1), slot(t, 3)]).to.deep.equal([
      [DATA, 30, 2, 0x8082],
      [DATA, 5, 1, 0x0081],
      [DATA, 30, 2, 0x0082],
    ]);
    t.driver.disableCallbacks();
    expect(t.get(1)).to.deep.equal([[1, 10]]);
    expect([t.driver.moreUsed(), t.driver.poll(t.driver.enableCallbacksPrepare())]).to.deep.equal([1, 1]);
    expect(t.driver.enableCallbacksDelayed()).to.equal(0);
    expect(t.get()).to.deep.equal([
      [2, 20],
      [3, 30],
    ]);
    expect(event(t, DRIVER)).to.deep.equal([0x8004, L.RING_EVENT_FLAGS_DESC]);
    expect(t.push([[3, 39]])).to.equal(1);
    expect(slot(t, 4)).to.deep.equal([DATA, 39, 3, 0x8082]);
    expect(t.get()).to.deep.equal([[4, 39]]);
    // Ids are used in turn.
    expect(t.add([[[DATA, 1]], [[DATA, 1]]], 9)).to.equal(2);
    expect([slot(t, 0)[2], slot(t, 1)[2]]).to.deep.equal([4, 0]);
  });

  it('asks for events at a position', () => {
    const t = setUp({ size: 4, eventIdx: true });
    expect(event(t, DRIVER)).to.deep.equal([0, L.RING_EVENT_FLAGS_ENABLE]);
    t.driver.enableCallbacksPrepare();
    expect(event(t, DRIVER)).to.deep.equal([0x8000, L.RING_EVENT_FLAGS_ENABLE]);
    t.driver.disableCallbacks();
    expect(event(t, DRIVER)[1]).to.equal(L.RING_EVENT_FLAGS_DISABLE);
    const ids = [0, 1, 2, 3].map((i) => pass(t, i));
    t.push([[ids[0], 0]]);
    expect(t.device.shouldInterrupt()).to.equal(0);
    t.get();
    // Three quarters of the three that are outstanding.
    expect(t.driver.enableCallbacksDelayed()).to.equal(1);
    expect(event(t, DRIVER)).to.deep.equal([0x8003, L.RING_EVENT_FLAGS_DESC]);
    t.push([
      [ids[1], 0],
      [ids[2], 0],
    ]);
    expect(t.device.shouldInterrupt()).to.equal(0);
    t.push([[ids[3], 0]]);
    expect(t.device.shouldInterrupt()).to.equal(1);
    expect(t.driver.enableCallbacksDelayed()).to.equal(0);
    expect(t.get()).to.have.length(3);
    expect(event(t, DRIVER)[0]).to.equal(0);
    // The device's side of it.
    t.device.disableNotifications();
    expect(t.device.enableNotifications()).to.equal(1);
    expect(event(t, DEVICE)).to.deep.equal([0, L.RING_EVENT_FLAGS_DESC]);
    expect(t.driver.kickPrepare()).to.equal(0);
    pass(t, 9);
    expect(event(t, DEVICE)).to.deep.equal([1, L.RING_EVENT_FLAGS_DESC]);
    expect(t.driver.kickPrepare()).to.equal(0);
    t.add([[[DATA, 1]]], 10);
    expect(t.driver.kickPrepare()).to.equal(1);
  });
});
