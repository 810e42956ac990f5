// The two engines side by side, at the interface that both implement: the same operations on two memories with
// the same layout must give the same results, the same bytes in the rings and the same state.

import { expect } from 'chai';
import * as L from '../../assembly/abi/layout.js';
import type { RingFormat } from '../../src/engine/engine.js';
import { TypeScriptEngine } from '../../src/engine/typescript/engine.js';
import { WasmEngine } from '../../src/engine/wasm/engine.js';
import { instantiateEngine } from '../../src/engine/wasm/module.js';
import { Arena, LinearMemory } from '../../src/memory.js';
import { runs } from '../support/choices.js';
import {
  ARENA,
  DATA,
  DESC,
  DEVICE,
  DRIVER,
  type Part,
  RIG_BYTES,
  type RigOptions,
  RingRig,
  randomness,
  TABLES,
} from '../support/ring-rig.js';

interface Options extends RigOptions {
  seed: number;
  steps: number;
  /** Somebody writes to the ring who does not play by the rules. */
  hostile?: boolean;
}

const page = 65536;
const memories = {
  typescript: new WebAssembly.Memory({ initial: RIG_BYTES / page }),
  wasm: new WebAssembly.Memory({ initial: RIG_BYTES / page }),
};
let wasm: Awaited<ReturnType<typeof instantiateEngine>>;

/** A difference, with the steps that led to it. */
class Difference extends Error {}

async function lockStep(options: Options): Promise<void> {
  const { seed, steps, ring, size, hostile = false } = options;
  const random = randomness(seed);
  for (const memory of Object.values(memories)) new Uint8Array(memory.buffer).fill(0, DESC, ARENA);
  const arena = new Arena(ARENA, RIG_BYTES - ARENA);
  const linear = { ts: new LinearMemory(memories.typescript), wasm: new LinearMemory(memories.wasm) };
  const rigs = [
    new RingRig(new TypeScriptEngine(linear.ts), linear.ts, options),
    new RingRig(new WasmEngine(wasm, linear.wasm, arena), linear.wasm, options),
  ];
  const [t, w] = rigs;
  const log: string[] = [];
  const fail = (what: string, ours: unknown, theirs: unknown): never => {
    const show = (value: unknown) =>
      JSON.stringify(value, (_, v) =>
        typeof v === 'bigint'
          ? `${v}n`
          : v instanceof Uint8Array
            ? [...v].map((b) => b.toString(16).padStart(2, '0')).join(' ')
            : v,
      );
    throw new Difference(
      `${what} differs (${JSON.stringify({ ...options })})\n typescript ${show(ours)}\n wasm       ${show(theirs)}\n after:\n  ${log.slice(-25).join('\n  ')}`,
    );
  };
  const same = (what: string, ours: unknown, theirs: unknown) => {
    try {
      expect(ours).to.deep.equal(theirs);
    } catch {
      fail(what, ours, theirs);
    }
  };
  /** Does the same to both and compares what comes of it. */
  const both = <T>(what: string, act: (rig: RingRig) => T): T => {
    log.push(what);
    const [ours, theirs] = rigs.map(act);
    log[log.length - 1] += ` → ${JSON.stringify(ours)}`;
    same(what, ours, theirs);
    return ours;
  };
  const compare = () => {
    const bytes = rigs.map((rig) => rig.bytes());
    for (const area of ['descriptor', 'driver', 'device', 'tables'] as const)
      if (Buffer.compare(bytes[0][area], bytes[1][area]) !== 0)
        fail(`${area} area`, bytes[0][area], bytes[1][area]);
    for (const side of ['driver', 'device'] as const) {
      same(`fault of ${side}`, t.fault(side), w.fault(side));
      same(`counters of ${side}`, t.counters(side), w.counters(side));
    }
    const numbers = (rig: RingRig) => [
      rig.driver.numFree,
      rig.driver.inFlight,
      rig.driver.tableBytes,
      rig.driver.position,
      rig.device.inFlight,
    ];
    same('numFree, inFlight, tableBytes, position, device.inFlight', numbers(t), numbers(w));
  };

  let held: { id: number; room: number }[] = [];
  let token = 1;
  let opaque = -1;
  const pick = <T>(list: readonly T[]): T => list[random(list.length)];
  const anyId = () => (held.length > 0 && random(12) !== 0 ? pick(held).id : random(size + 2));
  const forget = (id: number) => {
    held = held.filter((element) => element.id !== id);
  };
  const roomOf = (id: number) => held.find((element) => element.id === id)?.room ?? 0;
  const someOf = (room: number) => (random(2) === 0 ? room : random(15) === 0 ? room + 1 : random(room + 1));

  const part = (writable: boolean): Part => [
    DATA + random(0x8000),
    random(12) === 0 ? 0 : random(40) === 0 ? 0xffff_fff0 : 1 + random(2000),
    writable,
  ];
  const buffer = (): Part[] => {
    const count = random(3) === 0 ? 1 : 1 + random(random(30) === 0 ? size + 2 : Math.min(size, 5));
    const out = random(count + 1);
    return Array.from({ length: count }, (_, k) => part(k >= out));
  };

  const operations: [weight: number, () => void][] = [
    [
      30,
      () => {
        const buffers = Array.from({ length: 1 + random(random(6) === 0 ? 8 : 3) }, buffer);
        both(`add ${JSON.stringify(buffers)}`, (rig) => rig.add(buffers, token));
        token += buffers.length;
      },
    ],
    [10, () => both('kickPrepare', (rig) => rig.driver.kickPrepare())],
    [
      20,
      () => {
        const max = 1 + random(random(3) === 0 ? 40 : 4);
        both(`get ${max}`, (rig) => rig.get(max));
      },
    ],
    [5, () => both('moreUsed', (rig) => rig.driver.moreUsed())],
    [3, () => both('disableCallbacks', (rig) => rig.driver.disableCallbacks())],
    [
      4,
      () => {
        opaque = both('enableCallbacksPrepare', (rig) => rig.driver.enableCallbacksPrepare());
      },
    ],
    [
      4,
      () => {
        if (opaque >= 0) both(`poll ${opaque}`, (rig) => rig.driver.poll(opaque));
      },
    ],
    [4, () => both('enableCallbacksDelayed', (rig) => rig.driver.enableCallbacksDelayed())],
    [
      25,
      () => {
        const max = 1 + random(random(3) === 0 ? 40 : 4);
        const capacity = random(4) === 0 ? random(6) : 4096;
        const got = both(`pop ${max}, ${capacity}`, (rig) => rig.pop(max, capacity));
        if (Array.isArray(got))
          for (const element of got)
            held.push({
              id: element.id,
              room: Math.min(
                0xffffffff,
                element.in.reduce((sum, [, length]) => sum + length, 0),
              ),
            });
      },
    ],
    [
      20,
      () => {
        const list = Array.from({ length: random(held.length + 1) }, () => pick(held));
        const entries = [...new Set(list)].map(({ id, room }): [number, number] => [id, someOf(room)]);
        if (random(20) === 0) entries.push([anyId(), 0]);
        if (entries.length === 0) return;
        const n = both(`push ${JSON.stringify(entries)}`, (rig) => rig.push(entries));
        for (const [id] of entries.slice(0, Math.max(0, n))) forget(id);
      },
    ],
    [
      12,
      () => {
        const id = anyId();
        const written = someOf(roomOf(id));
        const offset = random(random(8) === 0 ? size + 2 : 3);
        const result = both(`fill ${id}, ${written}, ${offset}`, (rig) =>
          rig.device.fill(id, written, offset),
        );
        if (result === 0) forget(id);
      },
    ],
    [
      12,
      () => {
        const n = random(random(4) === 0 ? 5 : 3);
        both(`flush ${n}`, (rig) => rig.device.flush(n));
      },
    ],
    [
      4,
      () => {
        const n = random(random(4) === 0 ? size + 2 : 3);
        const last = both('lastPopped', (rig) => rig.device.lastPopped());
        const states = rigs.map((rig) => rig.device.save());
        if (both(`rewind ${n}`, (rig) => rig.device.rewind(n)) === 1 && n > 0) {
          const after = new Set(t.device.save().elements.map(({ id }) => id));
          held = held.filter(({ id }) => after.has(id));
          if (n === 1) expect(states[0].elements.at(-1)?.id).to.equal(last);
        }
      },
    ],
    [
      3,
      () => {
        const id = anyId();
        both(`writable ${id}`, (rig) => rig.device.writable(id));
      },
    ],
    [10, () => both('shouldInterrupt', (rig) => rig.device.shouldInterrupt())],
    [4, () => both('enableNotifications', (rig) => rig.device.enableNotifications())],
    [3, () => both('disableNotifications', (rig) => rig.device.disableNotifications())],
    [
      5,
      () => {
        const limits = [random(3) === 0 ? 1e9 : random(3000), random(3) === 0 ? 1e9 : random(3000)];
        both(`availableBytes ${limits}`, (rig) => [
          rig.device.availableBytes(limits[0], limits[1]),
          rig.device.availableIn,
          rig.device.availableOut,
        ]);
      },
    ],
    [
      6,
      () => {
        const driver = both('save driver', (rig) => rig.driver.save());
        const device = both('save device', (rig) => rig.device.save());
        if (random(2) !== 0) return;
        // Into rings that have seen nothing yet, each from the other engine.
        const broken = t.driver.fault !== 0 || t.device.fault !== 0;
        if (broken) return;
        both('load', (rig) => {
          const before = rig.copy();
          const counted = { driver: rig.counters('driver'), device: rig.counters('device') };
          rig.driver.release();
          rig.device.release();
          rig.driver = rig.newDriver();
          rig.device = rig.newDevice();
          rig.restore(before);
          rig.driver.load(structuredClone(driver));
          rig.device.load(structuredClone(device));
          for (let i = 0; i < L.COUNTERS; i++) {
            rig.driver.addCounter(i, counted.driver[i]);
            rig.device.addCounter(i, counted.device[i]);
          }
          return [rig.driver.save(), rig.device.save()];
        });
        same('driver state after load', t.driver.save(), driver);
        same('device state after load', t.device.save(), device);
      },
    ],
    [
      1,
      () => {
        if (random(3) !== 0 && t.driver.fault === 0 && t.device.fault === 0) return;
        both('detachUnused', (rig) => {
          const list = [];
          for (let one = rig.detachUnused(); one; one = rig.detachUnused())
            list.push([one, rig.driver.save()]);
          return list;
        });
        both('reset', (rig) => {
          rig.driver.reset();
          rig.device.reset();
        });
        held = [];
        opaque = -1;
      },
    ],
  ];
  if (hostile) {
    const poke16 = (address: number, value: number) =>
      both(`poke ${address.toString(16)} = ${value.toString(16)}`, (rig) =>
        rig.view.setUint16(address, value, true),
      );
    const poke32 = (address: number, value: number) =>
      both(`poke32 ${address.toString(16)} = ${value.toString(16)}`, (rig) =>
        rig.view.setUint32(address, value, true),
      );
    operations.push([
      10,
      () => {
        const d = DESC + 16 * random(size);
        const { avail } = t.device.save();
        const here = ring === 'packed' && random(2) === 0 ? DESC + 16 * (avail & 0x7fff) : d;
        const old = t.view.getUint16(here + 14, true);
        switch (random(8)) {
          case 0:
            poke16(here + 14, old ^ pick([1, 2, 4, 0x80, 0x8000, 0x8080, 5, 3]));
            break;
          case 1:
            poke16(here + 12, random(3) === 0 ? random(65536) : random(size + 1));
            break;
          case 2:
            poke32(here + 8, pick([0, 1, 15, 16, 24, 32, 48, 64, 80, 0xfffffff0, 16 * (size + 1)]));
            break;
          case 3:
            poke32(here + 4, pick([0, 0xffffffff, 1]));
            break;
          case 4:
            poke32(
              here,
              pick([0, RIG_BYTES - 1, RIG_BYTES - 16, DATA, TABLES, TABLES + 3, TABLES + 16, TABLES + 4]),
            );
            break;
          case 5:
            poke16(
              (random(2) ? DRIVER : DEVICE) + 2 * random(2),
              pick([0, 1, 2, 3, random(65536), random(size), 0x8000 | random(size)]),
            );
            break;
          case 6:
            // Available under the counter that the device has, whatever that was before.
            if (ring === 'packed') poke16(here + 14, (avail & 0x8000 ? 0x80 : 0x8000) | random(8));
            else poke16(here + 14, random(size + 1));
            break;
          case 7:
            poke32(
              TABLES + 16 * random(8) + 4 * random(4),
              pick([0, 1, 2, 4, DATA, 0x20000, 0xffffffff, random(4)]),
            );
            break;
        }
      },
    ]);
  } else {
    operations.push([
      1,
      () => {
        const id = anyId();
        if (both(`detach ${id}`, (rig) => rig.device.detach(id)) !== 0) return;
        forget(id);
      },
    ]);
  }
  const total = operations.reduce((sum, [weight]) => sum + weight, 0);
  for (let step = 0; step < steps; step++) {
    let at = random(total);
    let i = 0;
    while (at >= operations[i][0]) at -= operations[i++][0];
    operations[i][1]();
    compare();
    if ((t.driver.fault !== 0 || t.device.fault !== 0) && random(4) === 0) {
      both('reset', (rig) => {
        rig.driver.reset();
        rig.device.reset();
      });
      held = [];
      opaque = -1;
      compare();
    }
  }
  for (const rig of rigs) {
    rig.driver.release();
    rig.device.release();
  }
  expect(arena.used).to.equal(0);
}

describe('both engines side by side', () => {
  before(async () => {
    wasm = await instantiateEngine(memories.wasm, false);
  });
  const { numRuns: rounds } = runs(2);
  const first = Number(process.env.SEED ?? 1);
  const sizes: Record<RingFormat, number[]> = {
    packed: [1, 2, 3, 5, 6, 7, 64, 256],
    split: [1, 2, 4, 8, 64, 256],
  };
  for (const ring of ['packed', 'split'] as const)
    for (const inOrder of [false, true])
      for (const hostile of [false, true])
        for (const size of sizes[ring])
          it(`${ring} ring of ${size}${inOrder ? ', in order' : ''}${hostile ? ', hostile' : ''}`, async () => {
            for (let round = 0; round < rounds; round++) {
              const seed = first + round * 7919 + size;
              const random = randomness(seed * 31 + 7);
              const flag = () => random(2) === 1;
              await lockStep({
                ring,
                size,
                inOrder,
                hostile,
                eventIdx: flag(),
                indirect: flag(),
                strict: flag(),
                batches: flag(),
                translation: flag() ? 'lazy' : 'eager',
                tables: 16 * (4 + random(12)),
                seed,
                steps: 300,
              });
            }
          });
});
