import { expect } from 'chai';
import fc from 'fast-check';
import { Feature, type Host, loadEngine, VringError } from '../../src/index.js';
import type { Device, RunningQueue } from '../../src/vhost-user/device.js';
import { encode, type Message, MessageReader } from '../../src/vhost-user/message.js';
import {
  F_PROTOCOL_FEATURES,
  FLAG_NEED_REPLY,
  FLAG_REPLY,
  HEADER_BYTES,
  PAYLOAD_MAX,
  ProtocolFeature,
  Request,
} from '../../src/vhost-user/protocol.js';
import { Session } from '../../src/vhost-user/session.js';

const MEMORY = 1 << 20;
const GUEST = 0x1_0000_0000n;
const USER = 0x7f00_0000_0000n;

/** A device that gives every buffer back as it is. */
class Mirror implements Device {
  readonly features = [Feature.VERSION_1, Feature.RING_PACKED, Feature.EVENT_IDX, 5];
  readonly queues = 2;
  readonly config = new Uint8Array([1, 2, 3, 4]);
  readonly running = new Map<number, RunningQueue>();
  taken = 0;

  writeConfig(offset: number, bytes: Uint8Array): void {
    this.config.set(bytes, offset);
  }
  startQueue(queue: RunningQueue): void {
    this.running.set(queue.index, queue);
  }
  stopQueue(index: number): void {
    this.running.delete(index);
  }
  service(): boolean {
    let busy = false;
    for (const { queue } of this.running.values())
      for (let element = queue.pop(); element !== undefined; element = queue.pop()) {
        queue.push(element, 0);
        this.taken++;
        busy = true;
      }
    return busy;
  }
  arm(): boolean {
    return [...this.running.values()].every(({ queue }) => queue.enableNotifications());
  }
}

/** A session without a system: descriptors are numbers that are counted, memory is the engine's own. */
class Rig {
  readonly device = new Mirror();
  readonly open = new Set<number>();
  readonly signals = new Map<number, number>();
  readonly replies: { request: number; payload: DataView }[] = [];
  readonly session: Session;
  running = false;
  kicked = 0;
  mapped = 0;
  private nextFd = 100;
  private readonly reader = new MessageReader(true);
  private readonly watches = new Map<number, () => void>();

  constructor(readonly engine: Host) {
    const system = {
      map: (_fd: number, { length }: { length: number; offset: number }) => {
        const address = engine.alloc(length, 4096);
        this.mapped++;
        new Uint8Array(engine.buffer).fill(0, address, address + length);
        return {
          address,
          release: () => {
            engine.free(address);
            this.mapped--;
          },
        };
      },
      close: (fd: number) => {
        if (!this.open.delete(fd)) throw new Error(`descriptor ${fd} is closed twice`);
      },
      adoptEvent: () => {},
      signal: (fd: number) => void this.signals.set(fd, (this.signals.get(fd) ?? 0) + 1),
      drain: () => {},
      watch: (fd: number, ready: () => void) => {
        this.watches.set(fd, ready);
        return { stop: () => void this.watches.delete(fd) };
      },
    };
    this.session = new Session(engine, this.device, system, {
      send: (bytes) => {
        const header = this.reader.feed(bytes.subarray(0, HEADER_BYTES), []);
        const message = header ?? (this.reader.feed(bytes.subarray(HEADER_BYTES), []) as Message);
        this.replies.push(message);
      },
      start: () => {
        this.running = true;
      },
      stop: () => {
        this.running = false;
      },
      wake: () => {
        this.kicked++;
      },
      fail: (error) => {
        throw error;
      },
    });
  }

  fds(count: number): number[] {
    const fds = Array.from({ length: count }, () => this.nextFd++);
    for (const fd of fds) this.open.add(fd);
    return fds;
  }

  async send(
    request: number,
    payload: Uint8Array = new Uint8Array(0),
    fds = 0,
    flags = 0,
  ): Promise<DataView> {
    const before = this.replies.length;
    const bytes = payload.slice();
    await this.session.handle({
      request,
      flags: 1 | flags,
      payload: new DataView(bytes.buffer),
      fds: this.fds(fds),
    });
    return this.replies[before]?.payload;
  }

  kick(fd: number): void {
    this.watches.get(fd)?.();
  }

  get watched(): number[] {
    return [...this.watches.keys()];
  }

  async end(): Promise<void> {
    await this.session.close();
    expect([...this.open]).to.deep.equal([]);
    expect(this.watched).to.deep.equal([]);
    expect(this.mapped).to.equal(0);
    expect(this.engine.used).to.equal(0);
    expect(this.device.running.size).to.equal(0);
  }
}

const words = (...values: number[]): Uint8Array => new Uint8Array(new Uint32Array(values).buffer);
const longs = (...values: bigint[]): Uint8Array => new Uint8Array(new BigUint64Array(values).buffer);
const mask = (...bits: number[]): bigint => bits.reduce((sum, one) => sum | (1n << BigInt(one)), 0n);
const concat = (...parts: Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(parts));

const region = (guest = GUEST, size = BigInt(MEMORY), user = USER): Uint8Array =>
  longs(guest, size, user, 0n);
const table = (...regions: Uint8Array[]): Uint8Array => concat(words(regions.length, 0), ...regions);
const addresses = (index: number, at = USER): Uint8Array =>
  concat(words(index, 0), longs(at, at + 8192n, at + 4096n, 0n));

async function failure(act: Promise<unknown>): Promise<string> {
  try {
    await act;
  } catch (error) {
    if (error instanceof VringError) return error.message;
    throw error;
  }
  return 'none';
}

async function negotiate(rig: Rig, ...features: number[]): Promise<void> {
  await rig.send(Request.SET_OWNER);
  await rig.send(
    Request.SET_PROTOCOL_FEATURES,
    longs(mask(...Object.values(ProtocolFeature).filter((value) => typeof value === 'number'))),
  );
  await rig.send(Request.SET_FEATURES, longs(mask(Feature.VERSION_1, F_PROTOCOL_FEATURES, ...features)));
  await rig.send(Request.SET_MEM_TABLE, table(region()), 1);
}

async function startQueue(rig: Rig, index = 0, base = 0): Promise<void> {
  await rig.send(Request.SET_VRING_NUM, words(index, 8));
  await rig.send(Request.SET_VRING_BASE, words(index, base));
  await rig.send(Request.SET_VRING_ADDR, addresses(index));
  await rig.send(Request.SET_VRING_CALL, longs(BigInt(index)), 1);
  await rig.send(Request.SET_VRING_KICK, longs(BigInt(index)), 1);
  await rig.send(Request.SET_VRING_ENABLE, words(index, 1));
}

/** Makes a buffer of 16 bytes available in the split ring of queue 0, at `index`. */
function makeAvailable(rig: Rig, index: number): void {
  const at = rig.engine.buffer;
  const { local } = { local: localOf(rig) };
  const view = new DataView(at, local, MEMORY);
  view.setBigUint64((index % 8) * 16, GUEST + 65_536n, true);
  view.setUint32((index % 8) * 16 + 8, 16, true);
  view.setUint16(4096 + 4 + (index % 8) * 2, index % 8, true);
  view.setUint16(4096 + 2, index + 1, true);
}

/** Where the region lies in the engine. */
const localOf = (rig: Rig): number => {
  const running = rig.device.running.get(0);
  if (running === undefined) throw new Error('queue 0 does not run');
  return running.queue.save().areas.descriptor;
};

const usedIndex = (rig: Rig): number =>
  new DataView(rig.engine.buffer, localOf(rig), MEMORY).getUint16(8192 + 2, true);

describe('vhost-user back-end, from messages', () => {
  let engine: Host;
  let rig: Rig;
  before(async () => {
    engine = await loadEngine({ size: 8 * MEMORY });
  });
  beforeEach(() => {
    rig = new Rig(engine);
  });
  afterEach(() => rig.end());

  it('answers what it is asked', async () => {
    const offered = mask(...rig.device.features, F_PROTOCOL_FEATURES);
    expect((await rig.send(Request.GET_FEATURES)).getBigUint64(0, true)).to.equal(offered);
    await negotiate(rig);
    expect((await rig.send(Request.GET_QUEUE_NUM)).getBigUint64(0, true)).to.equal(2n);
    expect((await rig.send(Request.GET_MAX_MEM_SLOTS)).getBigUint64(0, true)).to.equal(32n);
    await rig.send(Request.SET_CONFIG, concat(words(1, 2, 0), new Uint8Array([8, 9])));
    const config = await rig.send(Request.GET_CONFIG, concat(words(0, 6, 0), new Uint8Array(6)));
    expect([...new Uint8Array(config.buffer, 12)]).to.deep.equal([1, 8, 9, 4, 0, 0]);
    await rig.send(Request.SET_STATUS, longs(15n));
    expect((await rig.send(Request.GET_STATUS)).getBigUint64(0, true)).to.equal(15n);
    const acknowledged = await rig.send(Request.SET_STATUS, longs(15n), 0, FLAG_NEED_REPLY);
    expect(acknowledged.getBigUint64(0, true)).to.equal(0n);
  });

  it('runs a queue, stops it, and goes on where it was', async () => {
    await negotiate(rig);
    expect(rig.running).to.equal(false);
    await startQueue(rig);
    expect(rig.running).to.equal(true);
    for (let i = 0; i < 20; i++) {
      makeAvailable(rig, i);
      rig.kick(rig.watched[0]);
      rig.device.service();
    }
    expect([rig.kicked, rig.device.taken, usedIndex(rig)]).to.deep.equal([20, 20, 20]);
    const base = await rig.send(Request.GET_VRING_BASE, words(0, 0));
    expect([base.getUint32(0, true), base.getUint32(4, true)]).to.deep.equal([0, 20]);
    expect([rig.running, rig.device.running.size, rig.watched.length]).to.deep.equal([false, 0, 0]);
    await rig.send(Request.SET_VRING_KICK, longs(0n), 1);
    makeAvailable(rig, 20);
    rig.device.service();
    expect([rig.device.taken, usedIndex(rig)]).to.deep.equal([21, 21]);
    expect(rig.session.reports.map(({ popped, pushed, lost }) => [popped, pushed, lost])).to.deep.equal([
      [20, 20, 0],
    ]);
  });

  it('packed: starts with wrap counter 1, takes the lower half of a base', async () => {
    await negotiate(rig, Feature.RING_PACKED);
    const base = await rig.send(Request.GET_VRING_BASE, words(1, 0));
    expect(base.getUint32(4, true)).to.equal(0x8000_8000);
    await startQueue(rig, 0, 0x0003);
    expect(rig.device.running.get(0)?.queue.save()).to.include({ ring: 'packed', avail: 3, used: 3 });
    const stopped = await rig.send(Request.GET_VRING_BASE, words(0, 0));
    expect(stopped.getUint32(4, true)).to.equal(0x0003_0003);
  });

  it('without protocol features queues are enabled from the start', async () => {
    await rig.send(Request.SET_FEATURES, longs(mask(Feature.VERSION_1)));
    await rig.send(Request.SET_MEM_TABLE, table(region()), 1);
    await rig.send(Request.SET_VRING_NUM, words(0, 8));
    await rig.send(Request.SET_VRING_ADDR, addresses(0));
    await rig.send(Request.SET_VRING_KICK, longs(0x100n));
    expect(rig.device.running.size).to.equal(1);
  });

  it('moves queues that run when the memory changes', async () => {
    await negotiate(rig);
    await startQueue(rig);
    makeAvailable(rig, 0);
    rig.device.service();
    await rig.send(Request.ADD_MEM_REG, concat(longs(0n), region(0n, 65_536n, 0x1000n)), 1);
    expect(rig.mapped).to.equal(2);
    await rig.send(Request.REM_MEM_REG, concat(longs(0n), region(0n, 65_536n, 0x1000n)), 1);
    expect(rig.mapped).to.equal(1);
    await rig.send(Request.SET_MEM_TABLE, table(region(0n, 65_536n, 0x1000n), region()), 2);
    // The memory of this rig starts anew: the ring's positions do not.
    makeAvailable(rig, 1);
    rig.device.service();
    expect([rig.device.taken, usedIndex(rig)]).to.deep.equal([2, 2]);
    expect(await failure(rig.send(Request.REM_MEM_REG, concat(longs(0n), region())))).to.match(/in none of/);
  });

  it('resets', async () => {
    await negotiate(rig);
    await startQueue(rig);
    await rig.send(Request.SET_STATUS, longs(0n));
    expect(rig.device.running.size).to.equal(0);
    await startQueue(rig);
    await rig.send(Request.RESET_DEVICE);
    expect([rig.device.running.size, rig.watched.length]).to.deep.equal([0, 0]);
  });

  const bad: [string, (rig: Rig) => Promise<unknown>, RegExp][] = [
    ['an unknown request', (r) => r.send(77), /EPROTO.*77 is unknown/],
    ['a wrong size', (r) => r.send(Request.SET_VRING_NUM, words(0)), /4 bytes, not 8/],
    ['a descriptor too many', (r) => r.send(Request.GET_FEATURES, new Uint8Array(0), 1), /1 descriptors/],
    ['a feature not offered', (r) => r.send(Request.SET_FEATURES, longs(mask(6))), /0x40 were not offered/],
    [
      'a protocol feature not offered',
      (r) => r.send(Request.SET_PROTOCOL_FEATURES, longs(mask(40))),
      /not all/,
    ],
    ['queue 2 of 2 (case 24)', (r) => r.send(Request.SET_VRING_NUM, words(2, 8)), /queue 2: there are 2/],
    ['queue -1', (r) => r.send(Request.GET_VRING_BASE, words(0xffffffff, 0)), /queue 4294967295/],
    ['queue size 0', (r) => r.send(Request.SET_VRING_NUM, words(0, 0)), /size must be/],
    ['queue size 32769', (r) => r.send(Request.SET_VRING_NUM, words(0, 32_769)), /size must be/],
    ['no region', (r) => r.send(Request.SET_MEM_TABLE, words(0, 0)), /0 regions/],
    ['more regions than bytes', (r) => r.send(Request.SET_MEM_TABLE, words(1, 0), 1), /8 bytes for 1/],
    [
      'too few descriptors',
      (r) => r.send(Request.SET_MEM_TABLE, table(region(), region(0n)), 1),
      /1 descriptors for 2/,
    ],
    [
      'regions that overlap',
      (r) => r.send(Request.SET_MEM_TABLE, table(region(), region(GUEST + 4096n, 4096n, 0n)), 2),
      /overlaps/,
    ],
    [
      'regions that overlap in the front-end',
      (r) => r.send(Request.SET_MEM_TABLE, table(region(), region(0n, 4096n, USER)), 2),
      /overlaps/,
    ],
    [
      'a region that wraps',
      (r) => r.send(Request.SET_MEM_TABLE, table(region((1n << 64n) - 4096n)), 1),
      /wraps/,
    ],
    ['an empty region', (r) => r.send(Request.SET_MEM_TABLE, table(region(0n, 0n)), 1), /empty/],
    [
      'a region that does not fit',
      (r) => r.send(Request.SET_MEM_TABLE, table(region(0n, 1n << 31n)), 1),
      /ENOMEM/,
    ],
    ['a huge region', (r) => r.send(Request.SET_MEM_TABLE, table(region(0n, 1n << 40n)), 1), /ENOMEM/],
    ['a removal of nothing', (r) => r.send(Request.REM_MEM_REG, concat(longs(0n), region(9n))), /no region/],
    ['a kick before anything', (r) => r.send(Request.SET_VRING_KICK, longs(0n), 1), /before SET_VRING_NUM/],
    [
      'a kick without its descriptor',
      (r) => r.send(Request.SET_VRING_KICK, longs(0n)),
      /0 descriptors, not 1/,
    ],
    [
      'a call with one too many',
      (r) => r.send(Request.SET_VRING_CALL, longs(0x100n), 1),
      /1 descriptors, not 0/,
    ],
    ['a kick of undefined bits', (r) => r.send(Request.SET_VRING_KICK, longs(0x200n), 1), /0x200/],
    ['logging', (r) => r.send(Request.SET_VRING_ADDR, concat(words(0, 1), longs(0n, 0n, 0n, 0n))), /logging/],
    ['enable 2', (r) => r.send(Request.SET_VRING_ENABLE, words(0, 2)), /value 2/],
    ['a configuration that is short', (r) => r.send(Request.GET_CONFIG, words(0, 4, 0)), /12 bytes/],
    [
      'a configuration too large',
      (r) => r.send(Request.GET_CONFIG, concat(words(200, 100, 0), new Uint8Array(100))),
      /offset 200/,
    ],
    [
      'a write behind the configuration',
      (r) => r.send(Request.SET_CONFIG, concat(words(3, 2, 0), new Uint8Array(2))),
      /cannot be written/,
    ],
    [
      'a ring outside',
      async (r) => {
        await r.send(Request.SET_VRING_NUM, words(0, 8));
        await r.send(Request.SET_VRING_ADDR, addresses(0, USER - 4096n));
        await r.send(Request.SET_VRING_ENABLE, words(0, 1));
        await r.send(Request.SET_VRING_KICK, longs(0n), 1);
      },
      /EFAULT.*descriptor area/,
    ],
    [
      'a ring that leaves its region',
      async (r) => {
        await r.send(Request.SET_VRING_NUM, words(0, 8192));
        await r.send(Request.SET_VRING_ADDR, addresses(0, USER + BigInt(MEMORY) - 12_288n));
        await r.send(Request.SET_VRING_ENABLE, words(0, 1));
        await r.send(Request.SET_VRING_KICK, longs(0n), 1);
      },
      /EFAULT/,
    ],
    [
      'a split ring of 6',
      async (r) => {
        await r.send(Request.SET_VRING_NUM, words(0, 6));
        await r.send(Request.SET_VRING_ADDR, addresses(0));
        await r.send(Request.SET_VRING_ENABLE, words(0, 1));
        await r.send(Request.SET_VRING_KICK, longs(0n), 1);
      },
      /power of two/,
    ],
    [
      'parameters of a queue that runs',
      async (r) => {
        await startQueue(r);
        await r.send(Request.SET_VRING_NUM, words(0, 8));
      },
      /which runs/,
    ],
    [
      'other features while a queue runs',
      async (r) => {
        await startQueue(r);
        await r.send(Request.SET_FEATURES, longs(mask(Feature.VERSION_1, F_PROTOCOL_FEATURES, 5)));
      },
      /while queues run/,
    ],
  ];
  for (const [what, act, message] of bad)
    it(`refuses ${what}`, async () => {
      await negotiate(rig);
      expect(await failure(act(rig))).to.match(message);
    });

  it('refuses legacy drivers, and requests of features that were not negotiated', async () => {
    await rig.send(Request.SET_FEATURES, longs(0n));
    await rig.send(Request.SET_MEM_TABLE, table(region()), 1);
    expect(await failure(startQueue(rig))).to.match(/VERSION_1/);
    expect(await failure(rig.send(Request.GET_STATUS))).to.match(/STATUS, which was not negotiated/);
  });

  it('whatever comes: an error or an answer, and everything is given back', async () => {
    const requests = Object.values(Request).filter((value) => typeof value === 'number');
    const word = fc.oneof(fc.nat(3), fc.constantFrom(8, 256, 0xffffffff), fc.nat(0xffffffff));
    const message = fc.record({
      request: fc.oneof(
        { weight: 9, arbitrary: fc.constantFrom(...requests) },
        { weight: 1, arbitrary: fc.nat(50) },
      ),
      payload: fc.oneof(
        fc.array(word, { maxLength: 12 }).map((values) => words(...values)),
        fc.constantFrom(
          addresses(0),
          addresses(1),
          table(region()),
          longs(0n),
          longs(1n),
          words(0, 8),
          words(0, 1),
        ),
      ),
      fds: fc.oneof({ weight: 4, arbitrary: fc.nat(1) }, { weight: 1, arbitrary: fc.nat(8) }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 40 }), async (messages) => {
        const one = new Rig(engine);
        let errors = 0;
        for (const { request, payload, fds } of messages) {
          // The property goes on after an error, which a connection would not: all the more is seen.
          if ((await failure(one.send(request, payload, fds))) !== 'none') errors++;
        }
        await one.end();
        return errors <= messages.length;
      }),
      { numRuns: 300, verbose: 1 },
    );
  });
});

describe('vhost-user messages', () => {
  it('are put together from any pieces, each with its descriptors', () => {
    const stream = concat(
      encode(Request.SET_VRING_NUM, 0, words(0, 8)),
      encode(Request.GET_FEATURES, 0, new Uint8Array(0)),
      encode(Request.SET_MEM_TABLE, FLAG_NEED_REPLY, table(region())),
    );
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 100, maxLength: 100 }), (sizes) => {
        const reader = new MessageReader(false);
        const got: [number, number, number[]][] = [];
        let at = 0;
        for (let i = 0; at < stream.length; i++) {
          const size = Math.min(sizes[i], reader.wanted, stream.length - at);
          const message = reader.feed(stream.subarray(at, at + size), got.length === 2 ? [at] : []);
          at += size;
          if (message) got.push([message.request, message.payload.byteLength, message.fds]);
        }
        expect(got.map(([request, bytes]) => [request, bytes])).to.deep.equal([
          [Request.SET_VRING_NUM, 8],
          [Request.GET_FEATURES, 0],
          [Request.SET_MEM_TABLE, 40],
        ]);
        expect(got[2][2].length).to.be.greaterThan(0);
        expect([...got[0][2], ...got[1][2], ...reader.abandon()]).to.deep.equal([]);
      }),
    );
  });

  const header = (request: number, flags: number, size: number): Uint8Array => words(request, flags, size);
  for (const [what, bytes, message] of [
    ['another version', header(1, 2, 0), /version 1/],
    ['undefined flags', header(1, 0x11, 0), /0x11/],
    ['a reply where requests are due', header(1, 1 | FLAG_REPLY, 0), /is a reply/],
    ['a huge payload', header(1, 1, PAYLOAD_MAX + 1), /more than any/],
    ['a payload of 2^32-1', header(1, 1, 0xffffffff), /more than any/],
  ] as const)
    it(`refuses ${what}`, () => {
      expect(() => new MessageReader(false).feed(bytes, [])).to.throw(VringError, message);
    });
});
