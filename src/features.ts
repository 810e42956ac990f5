import { VringError } from './errors.js';

/**
 * Device-independent feature bits (virtio 1.4, chapter 6). Bits of a device type (0–23, 50–127) are
 * plain numbers.
 */
export enum Feature {
  INDIRECT_DESC = 28,
  EVENT_IDX = 29,
  VERSION_1 = 32,
  ACCESS_PLATFORM = 33,
  RING_PACKED = 34,
  IN_ORDER = 35,
  ORDER_PLATFORM = 36,
  SR_IOV = 37,
  NOTIFICATION_DATA = 38,
  NOTIF_CONFIG_DATA = 39,
  RING_RESET = 40,
  ADMIN_VQ = 41,
  SUSPEND = 43,
}

/** Bits of the legacy interface (6.3), which vring does not speak: neither offered nor accepted. */
export enum LegacyFeature {
  NOTIFY_ON_EMPTY = 24,
  ANY_LAYOUT = 27,
  UNUSED = 30,
}

/** A set of feature bits as callers have it: bit numbers, or a mask with bit n of weight 2^n. */
export type Features = Iterable<number> | bigint;

/** 256 words of 32 bits: what the widest feature selector of the transports reaches (4.3.2.4). */
export const FEATURE_BITS_MAX = 8192;

const WORD_BITS = 32;

function checkBit(bit: unknown): asserts bit is number {
  if (!(Number.isInteger(bit) && (bit as number) >= 0 && (bit as number) < FEATURE_BITS_MAX)) {
    throw new VringError(
      'EINVAL',
      `feature bit ${String(bit)}: pass integers from 0 to ${FEATURE_BITS_MAX - 1}, such as Feature.EVENT_IDX`,
    );
  }
}

/**
 * The bit numbers in `features`, in ascending order.
 * @throws VringError EINVAL
 */
export function featureSet(features: Features): Set<number> {
  const bits: number[] = [];
  if (typeof features === 'bigint') {
    if (features < 0n || features >> BigInt(FEATURE_BITS_MAX) !== 0n) {
      throw new VringError(
        'EINVAL',
        `feature mask ${features}: pass a mask from 0 to 2^${FEATURE_BITS_MAX} - 1, or an array of bit numbers`,
      );
    }
    for (let rest = features, bit = 0; rest !== 0n; rest >>= 1n, bit++) {
      if (rest & 1n) bits.push(bit);
    }
  } else {
    if (typeof features?.[Symbol.iterator] !== 'function') {
      throw new VringError(
        'EINVAL',
        `features ${String(features)}: pass an array or a Set of bit numbers, or a mask as a bigint`,
      );
    }
    for (const bit of features) {
      checkBit(bit);
      bits.push(bit);
    }
  }
  return new Set(bits.sort((a, b) => a - b));
}

/** `features` as a mask with bit n of weight 2^n. */
export function featureMask(features: Features): bigint {
  let mask = 0n;
  for (const bit of featureSet(features)) mask |= 1n << BigInt(bit);
  return mask;
}

/**
 * Bits 32·`select` to 32·`select` + 31 of `features` as an unsigned number: what a transport shows
 * behind its feature selector.
 */
export function featureWord(features: Features, select: number): number {
  let word = 0;
  for (const bit of featureSet(features)) {
    // Not `1 << n`: that is negative for bit 31.
    if (Math.floor(bit / WORD_BITS) === select) word += 2 ** (bit % WORD_BITS);
  }
  return word;
}

/** The inverse of `featureWord`: word n has bits 32·n to 32·n + 31. Words may be signed. */
export function featuresOfWords(words: Iterable<number>): Set<number> {
  let mask = 0n;
  let select = 0;
  for (const word of words) mask |= BigInt(word >>> 0) << BigInt(WORD_BITS * select++);
  return featureSet(mask);
}

/**
 * Whose a feature bit is, by its number alone (2.2):
 * - `device-independent` one of `Feature`
 * - `device-type` means what the device type says
 * - `legacy` one of `LegacyFeature`
 * - `undefined` kept for extensions of the queue and of negotiation, but nothing defines it yet
 * - `reserved` kept for extensions of any kind
 */
export type FeatureKind = 'device-independent' | 'device-type' | 'legacy' | 'undefined' | 'reserved';

/**
 * 2.2 counts 41 and 42 among the bits of device types, because a legacy network device has used both;
 * chapter 6 has since given 41 to ADMIN_VQ, which is what it means here.
 */
export function featureKind(bit: number): FeatureKind {
  if (bit in Feature) return 'device-independent';
  if (bit in LegacyFeature) return 'legacy';
  if (bit <= 23 || bit === 42 || (bit >= 50 && bit <= 127)) return 'device-type';
  return bit <= 40 ? 'undefined' : 'reserved';
}
