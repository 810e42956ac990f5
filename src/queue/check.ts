import { show, VringError } from '../errors.js';

/** Throws EINVAL unless `value` is an integer from `min` to `max`; returns it. */
export function integer(value: unknown, what: string, min: number, max: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
    throw new VringError('EINVAL', `${what} must be an integer from ${min} to ${max}, got ${show(value)}`);
  return value;
}

/** True for what fits a word of 32 bits. */
export const isU32 = (value: unknown): value is number => typeof value === 'number' && value >>> 0 === value;
