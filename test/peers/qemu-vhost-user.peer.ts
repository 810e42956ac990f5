// `vring vhost-user` as the README hands it to QEMU, under a Linux guest.
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Feature } from '../../src/index.js';
import { Random } from '../fuzz/prng.js';
import { initramfs } from '../support/linux-guest/initramfs.js';
import { type GuestParts, guestParts } from '../support/linux-guest/parts.js';
import { Program } from '../support/linux-guest/program.js';

const VRING = fileURLToPath(new URL('../../dist/cli/vring.js', import.meta.url));
const SEED = Number(process.env.SEED ?? 1);

const MIB = 1 << 20;
const DISK_BYTES = 8 * MIB;
/** What the guest copies within the disk: from the start, in large requests and in small ones. */
const LARGE = { to: 4 * MIB, bytes: 2 * MIB };
const SMALL = { to: 6 * MIB, bytes: 64 * 512 };
/** Where the guest writes until it dies. */
const SCRATCH = 7 * MIB;
const PINGS = 5;

const BOOT_MS = 150_000;
const WORK_MS = 150_000;
const REPORT_MS = 20_000;

/**
 * Says what it finds as `vring NAME=VALUE`. Both ends of the network are the guest itself: whatever it sends
 * to one of its two addresses has to go out to the device, which sends it back. So a TCP connection between
 * them carries the disk's contents through the transmit and the receive queue.
 */
const CHECK = `
say() { echo "vring $1=$2"; }
until [ -b /dev/vda ] && [ -e /sys/class/net/eth0 ]; do usleep 50000; done
for d in /sys/bus/virtio/devices/*; do say "features-$(cat $d/device)" "$(cat $d/features)"; done
hash() { sha256sum | cut -d' ' -f1; }
say disk $(cat /dev/vda | hash)
dd if=/dev/vda of=/dev/vda bs=64k count=${LARGE.bytes >> 16} seek=${LARGE.to >> 16} conv=fsync 2>/dev/null
dd if=/dev/vda of=/dev/vda bs=512 count=${SMALL.bytes >> 9} seek=${SMALL.to >> 9} iflag=direct oflag=direct 2>/dev/null
sync
echo 3 >/proc/sys/vm/drop_caches
cat /dev/vda >/written
say written $(hash </written)

net=/sys/class/net/eth0
mac=$(cat $net/address)
say mac $mac
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
ip link set eth0 up
ip addr add 10.0.0.1/24 dev eth0
ip addr add 10.0.0.2/24 dev eth0
for address in 10.0.0.1 10.0.0.2; do arp -i eth0 -s $address $mac; done
ip route add 10.0.0.0/24 dev eth0 table 100
ip rule add iif lo table 100 pref 10
ip rule add table local pref 20
ip rule del pref 0
say pings "$(ping -c ${PINGS} -s 1400 -I 10.0.0.1 10.0.0.2 | grep received)"
httpd -h / -p 5000
through() { wget -q -O /through http://10.0.0.2:5000/written; }
through
say through $(hash </through)
# What belongs to the end of the connection.
sleep 1
say sent $(cat $net/statistics/tx_packets)
say received $(cat $net/statistics/rx_packets)
`;

/** Keeps both devices busy for ever. */
const BUSY = `
(while :; do dd if=/dev/vda of=/dev/null bs=64k iflag=direct; done) 2>/dev/null &
(while :; do dd if=/written of=/dev/vda bs=4k count=64 seek=${SCRATCH >> 12} oflag=direct conv=notrunc; done) 2>/dev/null &
(while :; do through; done) &
before=$(cat $net/statistics/rx_packets)
requests() { set -- $(cat /sys/block/vda/stat); echo $(($1 + $5)); }
start=$(requests)
until [ $(($(cat $net/statistics/rx_packets) - before)) -gt 500 ] && [ $(($(requests) - start)) -gt 50 ]; do usleep 50000; done
say busy yes
wait
`;

const OFF = 'poweroff -f\n';

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** What vring says of a front-end that has gone, in numbers. */
function reports(said: string): { error: string | undefined; used: number; lost: number }[] {
  return [...said.matchAll(/disconnected(?:: (.*))?; (\d+) buffers used, (\d+) lost/g)].map(
    ([, error, used, lost]) => ({ error, used: Number(used), lost: Number(lost) }),
  );
}

describe('QEMU and a Linux guest on vring vhost-user', function () {
  this.timeout(2 * (BOOT_MS + WORK_MS) + 60_000);

  let parts: GuestParts;
  let folder: string;
  before(() => {
    parts = guestParts();
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'vring-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function boot(packed: boolean, job: string): Program {
    const initrd = join(folder, 'initrd');
    writeFileSync(initrd, initramfs(parts, job));
    // QEMU 7.2 without KVM crashes when the guest uses MSI-X of a vhost-user device: INTx, then.
    const device = `vectors=0,disable-legacy=on,packed=${packed ? 'on' : 'off'}`;
    return new Program(
      'qemu-system-x86_64',
      [
        ['-m', '256', '-object', 'memory-backend-memfd,id=ram,size=256M,share=on'],
        ['-machine', 'q35,accel=tcg,memory-backend=ram'],
        ['-chardev', `socket,id=blk,path=${join(folder, 'blk')},reconnect=1`],
        ['-device', `vhost-user-blk-pci,chardev=blk,num-queues=1,${device}`],
        ['-chardev', `socket,id=net,path=${join(folder, 'net')},reconnect=1`],
        ['-netdev', 'vhost-user,id=n0,chardev=net'],
        ['-device', `virtio-net-pci,netdev=n0,romfile=,${device}`],
        ['-nodefaults', '-display', 'none', '-vga', 'none', '-serial', 'stdio', '-no-reboot'],
        ['-kernel', parts.kernel, '-initrd', initrd],
        ['-append', 'console=ttyS0 quiet loglevel=4 mitigations=off random.trust_cpu=on panic=-1'],
      ].flat(),
    );
  }

  /** Whether the guest took a feature of a device. */
  const took = (features: string, feature: number): boolean => features[feature] === '1';

  it('the disk, the network, a QEMU that is killed in the middle, and the next one', async () => {
    const disk = join(folder, 'disk.img');
    const random = new Random(SEED);
    const contents = Buffer.alloc(DISK_BYTES);
    for (let at = 0; at < DISK_BYTES; at += 4) contents.writeUInt32LE(random.below(0x8000_0000), at);
    writeFileSync(disk, contents);
    const serve = (name: string, ...device: string[]): Program =>
      new Program(process.execPath, [
        VRING,
        'vhost-user',
        '--socket',
        join(folder, name),
        '--device',
        ...device,
      ]);
    const blk = serve('blk', 'blk', disk);
    const net = serve('net', 'net-echo');
    const devices = [blk, net];
    let qemu: Program | undefined;
    try {
      for (const device of devices)
        await device.until((said) => said.match(/waiting for a connection/), 'vring starts', REPORT_MS);

      for (const [life, packed] of [false, true].entries()) {
        const last = life === 1;
        const guest = boot(packed, last ? CHECK + OFF : CHECK + BUSY);
        qemu = guest;
        const hears = (name: string, ms: number): Promise<string> =>
          guest.until(
            (said) => said.match(new RegExp(`^vring ${name}=(.*?)\\r?\\n`, 'm'))?.[1],
            `the guest says ${name}`,
            ms,
          );

        const expected = Buffer.from(readFileSync(disk));
        expect(await hears('disk', BOOT_MS)).to.equal(sha256(expected));
        expected.copy(expected, LARGE.to, 0, LARGE.bytes);
        expected.copy(expected, SMALL.to, 0, SMALL.bytes);
        expect(await hears('written', WORK_MS)).to.equal(sha256(expected));
        expect(readFileSync(disk).equals(expected), 'the file has what the guest wrote').to.equal(true);
        expect(await hears('mac', WORK_MS)).to.match(/^52:54:00:/);
        expect(await hears('pings', WORK_MS)).to.match(
          new RegExp(`^${PINGS} packets transmitted, ${PINGS} packets received, 0% packet loss`),
        );
        expect(await hears('through', WORK_MS)).to.equal(sha256(expected));
        const sent = Number(await hears('sent', WORK_MS));
        const received = Number(await hears('received', WORK_MS));
        // 1448 bytes of the disk in a frame, and both directions of the pings.
        expect(sent).to.be.above(DISK_BYTES / 1448 + 2 * PINGS);
        expect(received).to.equal(sent);
        for (const id of ['0x0001', '0x0002']) {
          const features = await hears(`features-${id}`, 0);
          for (const feature of [Feature.VERSION_1, Feature.INDIRECT_DESC, Feature.EVENT_IDX])
            expect(took(features, feature), `device ${id}, feature ${feature}`).to.equal(true);
          expect(took(features, Feature.RING_PACKED)).to.equal(packed);
        }

        if (last) expect(await guest.ended(WORK_MS), guest.said).to.equal(0);
        else {
          expect(await hears('busy', WORK_MS)).to.equal('yes');
          guest.kill();
          expect(await guest.ended(REPORT_MS)).to.equal('SIGKILL');
        }
        qemu = undefined;

        const [ofBlk, ofNet] = await Promise.all(
          devices.map((device) =>
            device.until((said) => reports(said)[life], 'vring reports the end', REPORT_MS),
          ),
        );
        for (const { error, lost } of [ofBlk, ofNet])
          expect({ error, lost }).to.deep.equal({ error: undefined, lost: 0 });
        if (last) expect(ofNet.used).to.equal(sent + received);
        else {
          expect(ofNet.used).to.be.at.least(sent + received + 500);
          // What it was writing when it died is a prefix of requests; nothing else has changed.
          const after = readFileSync(disk);
          expect(after.subarray(0, SCRATCH).equals(expected.subarray(0, SCRATCH))).to.equal(true);
        }
        console.log(
          `      ${packed ? 'packed' : 'split'}: ${ofBlk.used + ofNet.used} buffers, ${sent} frames there and back before ${last ? 'it was switched off' : 'it was busy and killed'}, seed ${SEED}`,
        );
      }
    } catch (error) {
      console.log([qemu, ...devices].map((program) => program?.said).join('\n'));
      throw error;
    } finally {
      qemu?.kill();
      for (const device of devices) device.kill('SIGTERM');
    }
    for (const device of devices) expect(await device.ended(REPORT_MS), device.said).to.equal(0);
  });
});
