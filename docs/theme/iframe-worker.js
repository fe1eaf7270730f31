/**
 * Lets the search work in pages that are opened from a folder: browsers then refuse the worker that
 * it runs in, so that the script of the worker runs in a hidden frame.
 */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.addEventListener("load", () => {
        const inside = frame.contentWindow;
        const script = inside.document.createElement("script");
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        script.onload = () => {
          this.post = (data) => inside.dispatchEvent(new MessageEvent("message", { data }));
          this.waiting.forEach(this.post);
        };
        script.src = url;
        inside.document.body.append(script);
      }, { once: true });
      document.body.append(frame);
    }

    postMessage(data) {
      if (this.post) this.post(data);
      else this.waiting.push(data);
    }

    terminate() {}
  };
}
