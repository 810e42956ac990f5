import { closeSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { VringError } from '../../src/index.js';
import { adoptEventfd, createEventfd, drainEventfd, signalEventfd } from '../../src/linux/eventfd.js';
import { watchReadable } from '../../src/linux/poller.js';
import {
  accept,
  connectTo,
  DESCRIPTORS_MAX,
  listenAt,
  receive,
  send,
  socketPair,
} from '../../src/linux/unix-socket.js';

describe('descriptors', () => {
  before(function () {
    if (process.platform !== 'linux') this.skip(); // event descriptors and epoll are Linux's
  });

  const fds: number[] = [];
  const own = (...some: number[]): number[] => {
    fds.push(...some);
    return some;
  };
  afterEach(() => {
    for (const fd of fds.splice(0)) closeSync(fd);
  });

  it('event descriptors: signal, drain, and no blocking', () => {
    const [fd] = own(createEventfd());
    expect(drainEventfd(fd)).to.equal(false);
    signalEventfd(fd);
    signalEventfd(fd);
    expect(drainEventfd(fd)).to.equal(true);
    expect(drainEventfd(fd)).to.equal(false);
    adoptEventfd(fd);
    const [socket] = own(...socketPair());
    expect(() => adoptEventfd(socket)).to.throw(VringError, 'EPROTO');
  });

  it('sends bytes with descriptors, which work on the other side', () => {
    const [a, b] = own(...socketPair());
    const events = Array.from({ length: DESCRIPTORS_MAX }, () => own(createEventfd())[0]);
    expect(receive(b, 100)).to.equal(undefined);
    send(a, new Uint8Array([1, 2, 3]), events);
    const chunk = receive(b, 100);
    own(...(chunk?.fds ?? []));
    expect([...(chunk?.bytes ?? [])]).to.deep.equal([1, 2, 3]);
    expect(chunk?.fds).to.have.length(DESCRIPTORS_MAX);
    chunk?.fds.forEach((fd, i) => {
      expect(drainEventfd(events[i])).to.equal(false);
      signalEventfd(fd);
      expect(drainEventfd(events[i])).to.equal(true);
    });
    send(a, new Uint8Array([4]));
    expect(receive(b, 100)).to.deep.equal({ bytes: new Uint8Array([4]), fds: [] });
  });

  it('sees the end of a stream, and an other side that does not read', () => {
    const [a, b] = socketPair();
    own(b);
    const full = (): void => {
      for (let i = 0; i < 100_000; i++) send(a, new Uint8Array(1000));
    };
    expect(full).to.throw(VringError, 'does not read');
    closeSync(a);
    let chunk = receive(b, 2048);
    while (chunk !== undefined && chunk.bytes.length > 0) chunk = receive(b, 2048);
    expect(chunk).to.deep.equal({ bytes: new Uint8Array(0), fds: [] });
    expect(() => send(b, new Uint8Array(1))).to.throw(VringError, 'EIO');
  });

  it('calls when something can be read, until it was; and lets the process end', async () => {
    const [a, b] = own(createEventfd(), createEventfd());
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      const first = watchReadable(a, () => {
        order.push('a');
        if (order.length < 3) return; // not drained: called again
        drainEventfd(a);
        first.stop();
        first.stop();
        signalEventfd(b);
      });
      const second = watchReadable(b, () => {
        order.push('b');
        drainEventfd(b);
        second.stop();
        resolve();
      });
      signalEventfd(a);
    });
    expect(order).to.deep.equal(['a', 'a', 'a', 'b']);
  });

  it('listens in the place of the dead, not of the living', () => {
    const folder = mkdtempSync(join(tmpdir(), 'vring-'));
    try {
      const path = join(folder, 's');
      expect(connectTo(path)).to.equal(undefined);
      closeSync(listenAt(path));
      expect(connectTo(path)).to.equal(undefined);
      const [listener] = own(listenAt(path));
      expect(accept(listener)).to.equal(undefined);
      expect(() => listenAt(path)).to.throw(VringError, 'somebody listens');
      const probe = accept(listener);
      own(probe as number);
      own(connectTo(path) as number);
      own(accept(listener) as number);
      const file = join(folder, 'f');
      writeFileSync(file, '');
      expect(() => listenAt(file)).to.throw(VringError, 'no socket');
      expect(() => listenAt('x'.repeat(200))).to.throw(VringError, '107');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
