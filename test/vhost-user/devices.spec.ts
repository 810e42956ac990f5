import {
  closeSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { type DriverQueue, Feature, type Host, loadEngine, NetFeature } from '../../src/index.js';
import { createEventfd } from '../../src/linux/eventfd.js';
import { connectTo, receive, send } from '../../src/linux/unix-socket.js';
import { Backend } from '../../src/vhost-user/backend.js';
import type { ConnectionReport } from '../../src/vhost-user/connection.js';
import type { Device } from '../../src/vhost-user/device.js';
import { Blk } from '../../src/vhost-user/devices/blk.js';
import { NetEcho } from '../../src/vhost-user/devices/net-echo.js';
import { NetReplay } from '../../src/vhost-user/devices/net-replay.js';
import { Frontend } from '../../src/vhost-user/frontend.js';
import { encode } from '../../src/vhost-user/message.js';
import { Request } from '../../src/vhost-user/protocol.js';

const MIB = 1 << 20;
const HEADER = 12;
const WAIT_MS = 20_000;

const RINGS = [Feature.VERSION_1, Feature.INDIRECT_DESC, Feature.EVENT_IDX];

async function until(what: string, there: () => boolean): Promise<void> {
  const end = Date.now() + WAIT_MS;
  while (!there()) {
    if (Date.now() > end) throw new Error(`${what}: not in ${WAIT_MS} ms`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const openDescriptors = (): number => readdirSync('/proc/self/fd').length;

describe('vhost-user devices, driven by our front-end', () => {
  before(async function () {
    if (process.platform !== 'linux') this.skip(); // descriptors that travel through sockets are Linux's
    [ours, theirs] = [
      await loadEngine({ size: 32 * MIB, shared: true }),
      await loadEngine({ size: 32 * MIB, shared: true }),
    ];
    // What is made once in a process is no leak: the thing that waits for descriptors.
    await serve(new NetEcho(), async (socket) => {
      (await connect(socket, [])).close();
    });
    warm = true;
  });

  let ours: Host;
  let theirs: Host;
  let warm = false;
  let reports: ConnectionReport[] = [];

  const connect = (socket: string, features: number[]): Promise<Frontend> =>
    Frontend.connect({ engine: ours, socket, memory: 4 * MIB, features: [...RINGS, ...features] });

  /** Runs a device for the time of `use`; everything must be given back then. */
  async function serve(
    device: Device,
    use: (socket: string) => Promise<void>,
    polling = false,
  ): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'vring-'));
    const before = openDescriptors();
    reports = [];
    const socket = join(folder, 's');
    const backend = new Backend({
      engine: theirs,
      socket,
      device,
      polling,
      closed: (report) => void reports.push(report),
    });
    try {
      await use(socket);
    } finally {
      await backend.close();
      rmSync(folder, { recursive: true });
    }
    expect([ours.used, theirs.used]).to.deep.equal([0, 0]);
    for (const { queues } of reports) for (const { lost } of queues) expect(lost).to.equal(0);
    // Node may have closed some of its own.
    if (warm) expect(openDescriptors()).to.be.at.most(before);
  }

  /** Receive buffers of `size` bytes, as many as the queue takes. */
  function post(frontend: Frontend, queue: DriverQueue, size: number): number {
    const address = frontend.alloc(queue.size * size, 64);
    for (let i = 0; i < queue.size; i++) queue.add([], [{ address: address + i * size, length: size }], i);
    queue.kick();
    return address;
  }

  for (const ring of ['split', 'packed'] as const)
    for (const mergeable of [false, true])
      for (const inOrder of [false, true])
        it(`echo: ${ring}${mergeable ? ', merged buffers' : ''}${inOrder ? ', in order' : ''}`, async () => {
          const device = new NetEcho();
          await serve(device, async (socket) => {
            const frontend = await connect(socket, [
              ...(ring === 'packed' ? [Feature.RING_PACKED] : []),
              ...(mergeable ? [NetFeature.MRG_RXBUF] : []),
              ...(inOrder ? [Feature.IN_ORDER] : []),
            ]);
            let interrupts = 0;
            const interrupt = (): void => void interrupts++;
            const receiveQueue = await frontend.startQueue({ index: 0, size: 16, interrupt });
            const transmit = await frontend.startQueue({ index: 1, size: 16 });
            expect(transmit.ring).to.equal(ring);
            const size = mergeable ? 100 : 2000;
            const buffers = post(frontend, receiveQueue, size);
            const u8 = new Uint8Array(ours.buffer);
            const at = frontend.alloc(2048);
            const lengths = [1, 2, 87, 88, 89, 187, 188, 189, 500, 1514];
            const count = 300;
            for (let n = 0; n < count; n++) {
              const length = lengths[n % lengths.length];
              for (let i = 0; i < HEADER + length; i++) u8[at + i] = i < HEADER ? 0 : n + i * 7;
              // The header alone, with a part of the frame, and all in one.
              const cuts = [[HEADER, length], [HEADER + length], [3, HEADER - 3 + length]][n % 3];
              let address = at;
              const segments = cuts.map((part) => {
                address += part;
                return { address: address - part, length: part };
              });
              expect(transmit.add(segments, [], n)).to.equal(true);
              transmit.kick();
              let got = receiveQueue.getBuf();
              await until(`frame ${n}`, () => {
                got ??= receiveQueue.getBuf();
                return got !== undefined;
              });
              const frame: number[] = [];
              let parts = 1;
              for (let k = 0; k < parts; k++) {
                got ??= receiveQueue.getBuf();
                if (got === undefined) throw new Error(`part ${k} of ${parts} is missing`);
                const from = buffers + got.token * size;
                if (k === 0) parts = u8[from + 10] | (u8[from + 11] << 8);
                frame.push(...u8.subarray(from + (k === 0 ? HEADER : 0), from + got.length));
                receiveQueue.add([], [{ address: from, length: size }], got.token);
                got = undefined;
              }
              receiveQueue.kick();
              if (!mergeable) expect(parts).to.equal(1);
              expect(frame).to.deep.equal(Array.from({ length }, (_, i) => (n + (i + HEADER) * 7) & 0xff));
              await until('the transmit buffer', () => transmit.getBuf()?.token === n);
            }
            expect(interrupts).to.be.greaterThan(0);
            expect(await frontend.stopQueue(1)).to.deep.equal([]);
            expect((await frontend.stopQueue(0)).length).to.equal(16);
            frontend.close();
            await until('the report', () => reports.length === 1);
            expect(reports[0].error).to.equal(undefined);
            expect(device.counts).to.include({ frames: count, dropped: 0 });
          });
        });

  it('echo: a frame waits for receive buffers, and is dropped if none can hold it', async () => {
    const device = new NetEcho();
    await serve(device, async (socket) => {
      const frontend = await connect(socket, []);
      const receiveQueue = await frontend.startQueue({ index: 0, size: 4 });
      const transmit = await frontend.startQueue({ index: 1, size: 4 });
      const at = frontend.alloc(4096);
      transmit.add([{ address: at, length: 100 }], [], 1);
      transmit.add([{ address: at, length: 1000 }], [], 2);
      transmit.add([{ address: at, length: HEADER }], [], 3);
      transmit.kick();
      receiveQueue.add([], [{ address: at + 2048, length: 500 }], 1);
      receiveQueue.kick();
      await until('the frame', () => receiveQueue.getBuf()?.length === 100);
      receiveQueue.add([], [{ address: at + 2048, length: 500 }], 2);
      receiveQueue.kick();
      await until('all transmit buffers', () => {
        while (transmit.getBuf() !== undefined);
        return transmit.inFlight === 0;
      });
      expect(device.counts).to.include({ frames: 1, dropped: 2 });
      expect(receiveQueue.inFlight).to.equal(1);
      frontend.close();
      await until('the report', () => reports.length === 1);
    });
  });

  it('replay: all frames, in order, polling', async () => {
    const frames = Array.from({ length: 50 }, (_, n) => new Uint8Array(60 + n * 3).fill(n));
    const device = new NetReplay(frames, 4);
    await serve(
      device,
      async (socket) => {
        const frontend = await connect(socket, [Feature.RING_PACKED, NetFeature.MRG_RXBUF]);
        const receiveQueue = await frontend.startQueue({ index: 0, size: 8 });
        await frontend.startQueue({ index: 1, size: 8 });
        const buffers = post(frontend, receiveQueue, 128);
        const u8 = new Uint8Array(ours.buffer);
        const got: number[] = [];
        let left = 0;
        await until('200 frames', () => {
          for (let used = receiveQueue.getBuf(); used !== undefined; used = receiveQueue.getBuf()) {
            const from = buffers + used.token * 128;
            if (left === 0) {
              left = u8[from + 10];
              got.push(u8[from + HEADER]);
            }
            left--;
            receiveQueue.add([], [{ address: from, length: 128 }], used.token);
          }
          receiveQueue.kick();
          return got.length === 200 && left === 0;
        });
        expect(got).to.deep.equal(Array.from({ length: 200 }, (_, n) => n % 50));
        expect(device.done).to.equal(true);
        frontend.close();
        await until('the report', () => reports.length === 1);
      },
      true,
    );
  });

  it('disk: reads, writes, flushes, says its name and refuses the rest', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vring-'));
    const file = join(folder, 'disk');
    const content = Buffer.alloc(64 * 512 + 100, 0).map((_, i) => (i * 7) ^ (i >> 8));
    writeFileSync(file, content);
    const fd = openSync(file, 'r+');
    const device = new Blk(fd, fstatSync(fd).size);
    try {
      await serve(device, async (socket) => {
        const frontend = await connect(socket, []);
        expect(new DataView((await frontend.config(0, 8)).slice().buffer).getBigUint64(0, true)).to.equal(
          64n,
        );
        const queue = await frontend.startQueue({ index: 0, size: 16 });
        const at = frontend.alloc(64 * 1024);
        const u8 = new Uint8Array(ours.buffer);
        const view = new DataView(ours.buffer);
        const request = async (
          type: number,
          sector: bigint,
          out: number[],
          in_: number[],
        ): Promise<[number, number]> => {
          view.setUint32(at, type, true);
          view.setBigUint64(at + 8, sector, true);
          let next = at + 16;
          const take = (length: number): { address: number; length: number } => {
            next += length;
            return { address: next - length, length };
          };
          u8[at + 40_000] = 0xff;
          const readable = [{ address: at, length: 10 }, { address: at + 10, length: 6 }, ...out.map(take)];
          queue.add(readable, [...in_.map(take), { address: at + 40_000, length: 1 }], 9);
          queue.kick();
          let length = -1;
          await until('the request', () => {
            length = queue.getBuf()?.length ?? -1;
            return length >= 0;
          });
          return [u8[at + 40_000], length];
        };
        expect(await request(0, 3n, [], [512, 1024])).to.deep.equal([0, 1537]);
        expect(Buffer.compare(u8.slice(at + 16, at + 16 + 1536), content.subarray(1536, 3072))).to.equal(0);
        u8.fill(0xab, at + 16, at + 16 + 1024);
        expect(await request(1, 62n, [1000, 24], [])).to.deep.equal([0, 1]);
        expect(await request(4, 0n, [], [])).to.deep.equal([0, 1]);
        expect(readFileSync(file).subarray(62 * 512, 64 * 512)).to.deep.equal(Buffer.alloc(1024, 0xab));
        expect(readFileSync(file).length).to.equal(content.length);
        expect(await request(8, 0n, [], [20])).to.deep.equal([0, 21]);
        expect(Buffer.from(u8.slice(at + 16, at + 21)).toString()).to.equal('vring');
        expect((await request(0, 63n, [], [1024]))[0]).to.equal(1);
        expect((await request(1, 64n, [512], []))[0]).to.equal(1);
        expect((await request(0, 1n << 60n, [], [512]))[0]).to.equal(1);
        expect((await request(0, 0n, [], [100]))[0]).to.equal(1);
        expect((await request(99, 0n, [], []))[0]).to.equal(2);
        // Reads in flight when the front-end goes.
        view.setUint32(at, 0, true);
        view.setBigUint64(at + 8, 0n, true);
        for (let i = 0; i < 4; i++)
          queue.add([{ address: at, length: 16 }], [{ address: at + 64, length: 1025 }], i);
        queue.kick();
        frontend.close();
        await until('the report', () => reports.length === 1);
        expect(device.counts).to.include({ flushes: 1, writes: 1, failed: 5 });
      });
    } finally {
      closeSync(fd);
      rmSync(folder, { recursive: true });
    }
  });

  const hostile: [string, (fd: number) => void, RegExp | undefined][] = [
    ['noise', (fd) => send(fd, new Uint8Array(64).fill(0xee)), /EPROTO.*flags/],
    ['half a message, then nothing', (fd) => send(fd, new Uint8Array([1, 0, 0, 0, 1])), undefined],
    ['an unknown request', (fd) => send(fd, encode(99, 0, new Uint8Array(8))), /unknown/],
    [
      'a descriptor that is no memory',
      (fd) => {
        const event = createEventfd();
        const table = new DataView(new ArrayBuffer(40));
        table.setUint32(0, 1, true);
        table.setBigUint64(16, 4096n, true);
        send(fd, encode(Request.SET_MEM_TABLE, 0, new Uint8Array(table.buffer)), [event]);
        closeSync(event);
      },
      /no file/,
    ],
    [
      'a kick that is no event descriptor',
      (fd) => send(fd, encode(Request.SET_VRING_CALL, 0, new Uint8Array(8)), [0]),
      /must be eventfds/,
    ],
    [
      'a front-end that does not read',
      (fd) => {
        try {
          for (;;) send(fd, encode(Request.GET_FEATURES, 0, new Uint8Array(0)));
        } catch {
          // Neither side goes on: the socket is full.
        }
      },
      /does not read/,
    ],
  ];
  for (const [what, act, message] of hostile)
    it(`survives ${what}, and serves the next one`, async () => {
      const device = new NetEcho();
      await serve(device, async (socket) => {
        const fd = connectTo(socket);
        if (fd === undefined) throw new Error('nobody listens');
        act(fd);
        if (message === undefined) closeSync(fd);
        await until('the report', () => {
          // A full socket: what was refused before may go now.
          if (message !== undefined && reports.length === 0 && what.includes('read')) act(fd);
          return reports.length === 1;
        });
        if (message === undefined) expect(reports[0].error).to.equal(undefined);
        else {
          expect(reports[0].error?.message).to.match(message);
          while ((receive(fd, 2048)?.bytes.length ?? 0) > 0);
          closeSync(fd);
        }
        const frontend = await connect(socket, []);
        await frontend.startQueue({ index: 0, size: 8 });
        frontend.close();
        await until('the next report', () => reports.length === 2);
        expect(reports[1].queues.length).to.equal(1);
      });
    });

  it('a driver that breaks its ring loses the connection, and says why', async () => {
    await serve(new NetEcho(), async (socket) => {
      let gone = false;
      const frontend = await Frontend.connect({
        engine: ours,
        socket,
        memory: MIB,
        features: RINGS,
        closed: () => {
          gone = true;
        },
      });
      await frontend.startQueue({ index: 0, size: 8 });
      const transmit = await frontend.startQueue({ index: 1, size: 8 });
      transmit.add([{ address: 0xdead_0000, length: 100 }], [], 1);
      transmit.kick();
      await until('both reports', () => reports.length === 1 && gone);
      expect(reports[0].error?.message).to.match(/EFAULT.*outside every region/);
      expect(() => transmit.getBuf()).to.throw('released');
    });
  });
});
