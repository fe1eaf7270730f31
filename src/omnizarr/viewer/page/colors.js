/** Colour maps, and values as pixels. */

// Control points at equal distances; colours between them are interpolated.
const POINTS = {
  gray: "000000 ffffff",
  viridis: "440154 472d7b 3b528b 2c728e 21918c 28ae80 5ec962 addc30 fde725",
  magma: "000004 1c1044 4f127b 812581 b5367a e55964 fb8761 fec287 fcfdbf",
  cividis: "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838",
  turbo: "30123b 4666dd 36a8f9 1ae4b6 71fe5f c8ef34 faba39 f66b19 ca2a04 7a0403",
  heat: "000000 7a0403 d23105 fb8022 ffd23a ffffff",
  ocean: "03071e 0b2a5b 14538c 1f7fb0 4fb0c6 9fd8d3 f0faee",
  "blue–red": "2b4d9e 5b86c9 9dbfe3 dbe6ee f3f1ee f4dccb e6a281 cc5f4b 9c1d2f",
  cyclic: "2e2185 6d4aa3 b4668f e3a07c f0dfc0 b5cbb0 6fa4ab 456a9e 2e2185",
};

/** Names of the colour maps; "labels" gives every integer a colour of its own. */
export const MAPS = [...Object.keys(POINTS), "labels"];

const tables = new Map();

function rgb(hex) {
  const number = Number.parseInt(hex, 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

function table(hexes) {
  const points = hexes.map(rgb);
  const colors = new Uint32Array(256);
  for (let i = 0; i < 256; i += 1) {
    const place = (i / 255) * (points.length - 1);
    const first = Math.min(points.length - 2, Math.floor(place));
    const part = place - first;
    const [r, g, b] = [0, 1, 2].map((k) => Math.round(points[first][k] * (1 - part) + points[first + 1][k] * part));
    colors[i] = pack(r, g, b);
  }
  return colors;
}

/** Return a colour as pixels are stored: red in the lowest byte, opaque. */
function pack(r, g, b) {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** Return the colours that an OME-Zarr label image states, by value; null if it states none. */
export function statedColors(label) {
  if (!Array.isArray(label?.colors)) return null;
  const isByte = (n) => Number.isInteger(n) && n >= 0 && n <= 255;
  return new Map(label.colors
    .filter((one) => one?.rgba?.length === 4 && [...one.rgba].every(isByte))
    .map(({ "label-value": value, rgba: [r, g, b, a] }) => [value, ((a << 24) | (b << 16) | (g << 8) | r) >>> 0]));
}

/** Return the 256 colours of a map, from low to high. */
export function mapColors(name, inverted = false) {
  const key = `${name}${inverted}`;
  if (!tables.has(key)) {
    const colors = name === "labels" ? labelColors() : table(POINTS[name].split(" "));
    tables.set(key, inverted ? colors.slice().reverse() : colors);
  }
  return tables.get(key);
}

/** Return the 256 colours from black to one colour. */
export function tintColors(hex) {
  if (!tables.has(`#${hex}`)) tables.set(`#${hex}`, table(["000000", hex]));
  return tables.get(`#${hex}`);
}

/** Return clearly different colours, by steps of the golden angle around the wheel. */
function labelColors() {
  const colors = new Uint32Array(256);
  for (let i = 0; i < 256; i += 1) {
    const hue = (i * 137.508) % 360;
    const light = 0.45 + 0.25 * ((i * 0.618) % 1);
    const part = (n) => {
      const k = (n + hue / 30) % 12;
      return Math.round(255 * (light - 0.6 * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
    };
    colors[i] = pack(part(0), part(8), part(4));
  }
  return colors;
}

/** Return a colour as "#rrggbb", darker or brighter where it could not be seen on a background. */
export function legible(color, back) {
  const light = (hex) => rgb(hex).reduce((sum, n, i) => sum + n * [0.3, 0.59, 0.11][i], 0) / 255;
  let [found, ground] = [color, back].map((text) => text.replace("#", ""));
  for (let i = 0; i < 12 && Math.abs(light(found) - light(ground)) < 0.35; i += 1) {
    const end = light(ground) > 0.5 ? 0 : 255;
    found = rgb(found).map((n) => Math.round(n * 0.85 + end * 0.15).toString(16).padStart(2, "0")).join("");
  }
  return `#${found}`;
}

/** Return a CSS gradient of a colour map. */
export function gradient(colors) {
  const stops = [];
  for (let i = 0; i <= 255; i += 15) {
    const c = colors[i];
    stops.push(`rgb(${c & 255} ${(c >> 8) & 255} ${(c >> 16) & 255})`);
  }
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

/** Turn values into a canvas; `style` is `{colors, low, high, labels}`. NaN is transparent. */
export function paint(values, rows, columns, style) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const { colors, low, high } = style;
  if (style.labels) {
    for (let i = 0; i < pixels.length; i += 1) {
      const value = values[i];
      const given = style.given?.get(value);
      if (given !== undefined) pixels[i] = given;
      else pixels[i] = value === 0 || value !== value ? 0 : colors[Math.imul(value, 2654435761) >>> 24];
    }
  } else {
    const factor = high > low ? 255 / (high - low) : 0;
    for (let i = 0; i < pixels.length; i += 1) {
      const value = values[i];
      if (value !== value) continue;
      const place = factor === 0 ? (value > high ? 255 : 0) : (value - low) * factor;
      pixels[i] = colors[place <= 0 ? 0 : place >= 255 ? 255 : (place + 0.5) | 0];
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
