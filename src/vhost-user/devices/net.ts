import { NetFeature } from '../../device-types.js';
import { VringError } from '../../errors.js';
import { Feature } from '../../features.js';

/** Bytes of the header in front of each frame, without HASH_REPORT (virtio 1.4, 5.1.6). */
export const NET_HEADER = 12;
const NUM_BUFFERS = 10;

/** Makes a header that says nothing but in how many buffers the frame is. */
export function netHeader(header: Uint8Array, buffers: number): Uint8Array {
  header[NUM_BUFFERS] = buffers & 0xff;
  header[NUM_BUFFERS + 1] = buffers >>> 8;
  return header;
}

/** What the rings can do. */
export const RING_FEATURES: readonly number[] = [
  Feature.VERSION_1,
  Feature.RING_PACKED,
  Feature.INDIRECT_DESC,
  Feature.EVENT_IDX,
  Feature.IN_ORDER,
];

const MAC_BYTES = 6;
/** mac, status, max_virtqueue_pairs (5.1.4). */
const CONFIG_BYTES = 10;
const PAIRS_MAX = 128;

/** Features of a network device of `pairs` queue pairs. The control queue is the front-end's business. */
export function netFeatures(pairs: number): number[] {
  if (!Number.isInteger(pairs) || pairs < 1 || pairs > PAIRS_MAX)
    throw new VringError('EINVAL', `pairs must be an integer from 1 to ${PAIRS_MAX}, got ${pairs}`);
  const features = [...RING_FEATURES, NetFeature.MRG_RXBUF, NetFeature.MAC];
  if (pairs > 1) features.push(NetFeature.MQ, NetFeature.CTRL_VQ);
  return features;
}

/**
 * Some drivers (DPDK's) look for a used entry of each receive buffer, also in in-order use: the first queue of each
 * pair has them.
 */
export const netBatches = (index: number): boolean => (index & 1) === 1;

/** The configuration space. @param mac first byte first; locally administered if absent */
export function netConfig(pairs: number, mac: readonly number[] = [0x52, 0x54, 0, 0, 0, 1]): Uint8Array {
  if (mac.length !== MAC_BYTES)
    throw new VringError('EINVAL', `a MAC address has 6 bytes, got ${mac.length}`);
  const config = new Uint8Array(CONFIG_BYTES);
  config.set(mac);
  new DataView(config.buffer).setUint16(8, pairs, true);
  return config;
}
